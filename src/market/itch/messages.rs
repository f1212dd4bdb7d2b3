//! The body of each message type, byte for byte as it travels. The structs are views: decoding one is a length check,
//! encoding one is a copy.

use super::fields::{Header, Price4, Price8, Stock};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::big_endian::{U32, U64},
};

/// Declares a message body: the listed fields behind the common header, without padding.
macro_rules! bodies {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$field_doc:meta])* $field:ident : $type:ty, )* } )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $name {
            /// Type, security, tracking number and time.
            pub header: Header,
            $( $(#[$field_doc])* pub $field: $type, )*
        }
    )*};
}

bodies! {
    /// `S`: an event of the whole market's day.
    SystemEvent {
        /// `O` start of messages, `S` system hours, `Q` market hours, `M` their end, `E` end of system hours, `C` end of messages.
        event_code: u8,
    }
    /// `R`: names a security and gives its trading characteristics.
    StockDirectory {
        /// The symbol.
        stock: Stock,
        /// Listing market, e.g. `Q` NASDAQ Global Select.
        market_category: u8,
        /// `N` normal, `D` deficient, ... or a space.
        financial_status: u8,
        /// Shares in a round lot.
        round_lot_size: U32,
        /// `Y` if only round lots are accepted.
        round_lots_only: u8,
        /// `C` common stock, ...
        issue_classification: u8,
        /// Finer classification, left-justified.
        issue_subtype: [u8; 2],
        /// `P` live, `T` test.
        authenticity: u8,
        /// Short sale threshold: `Y`, `N` or a space.
        short_sale_threshold: u8,
        /// IPO release flag: `Y`, `N` or a space.
        ipo_flag: u8,
        /// LULD price tier: `1`, `2` or a space.
        luld_tier: u8,
        /// Exchange-traded product: `Y`, `N` or a space.
        etp_flag: u8,
        /// Leverage of the exchange-traded product.
        etp_leverage: U32,
        /// `Y` for an inverse product.
        inverse: u8,
    }
    /// `H`: trading in a security is halted, paused, quoted only or resumed.
    TradingAction {
        /// The symbol.
        stock: Stock,
        /// `H`, `P`, `Q` or `T`.
        state: u8,
        /// Reserved.
        reserved: u8,
        /// The reason's code, left-justified.
        reason: [u8; 4],
    }
    /// `Y`: Regulation SHO short-sale restriction.
    RegSho {
        /// The symbol.
        stock: Stock,
        /// `0` none, `1` begins, `2` remains in effect.
        action: u8,
    }
    /// `L`: a market participant's position in a security.
    ParticipantPosition {
        /// The market participant.
        participant: [u8; 4],
        /// The symbol.
        stock: Stock,
        /// `Y` if it is the primary market maker.
        primary: u8,
        /// Market maker mode, `N` normal, ...
        mode: u8,
        /// Participant state, `A` active, ...
        state: u8,
    }
    /// `V`: the day's market-wide circuit breaker levels.
    CircuitBreakerLevels {
        /// Level 1.
        level1: Price8,
        /// Level 2.
        level2: Price8,
        /// Level 3.
        level3: Price8,
    }
    /// `W`: a market-wide circuit breaker level was breached.
    CircuitBreakerStatus {
        /// `1`, `2` or `3`.
        level: u8,
    }
    /// `K`: the quoting period of an initial public offering.
    IpoQuotingPeriod {
        /// The symbol.
        stock: Stock,
        /// When quoting begins, in seconds since midnight.
        release_s: U32,
        /// `A` anticipated, `C` cancelled or postponed.
        qualifier: u8,
        /// The offering's price.
        price: Price4,
    }
    /// `J`: collar of the auction that reopens a security after a limit-up-limit-down pause.
    AuctionCollar {
        /// The symbol.
        stock: Stock,
        /// Reference price.
        reference_price: Price4,
        /// Upper collar.
        upper: Price4,
        /// Lower collar.
        lower: Price4,
        /// Number of extensions so far.
        extension: U32,
    }
    /// `h`: an operational halt on one market centre.
    OperationalHalt {
        /// The symbol.
        stock: Stock,
        /// `Q` NASDAQ, `B` BX, `X` PSX.
        market: u8,
        /// `H` halted, `T` resumed.
        action: u8,
    }
    /// `A`: an order enters the book.
    AddOrder {
        /// The day's unique number of the order.
        reference: U64,
        /// `B` buy, `S` sell.
        side: u8,
        /// Displayed shares.
        shares: U32,
        /// The symbol.
        stock: Stock,
        /// Limit price.
        price: Price4,
    }
    /// `F`: as `A`, with the participant behind it.
    AddOrderAttributed {
        /// The day's unique number of the order.
        reference: U64,
        /// `B` buy, `S` sell.
        side: u8,
        /// Displayed shares.
        shares: U32,
        /// The symbol.
        stock: Stock,
        /// Limit price.
        price: Price4,
        /// The market participant.
        attribution: [u8; 4],
    }
    /// `E`: an order in the book was executed, in part or as a whole, at its price.
    OrderExecuted {
        /// The order.
        reference: U64,
        /// Executed shares.
        shares: U32,
        /// The day's unique number of the match.
        match_number: U64,
    }
    /// `C`: an order was executed at another price than its own.
    OrderExecutedWithPrice {
        /// The order.
        reference: U64,
        /// Executed shares.
        shares: U32,
        /// The day's unique number of the match.
        match_number: U64,
        /// `Y` counts as a trade, `N` does not.
        printable: u8,
        /// The price of the execution.
        price: Price4,
    }
    /// `X`: a part of an order was cancelled.
    OrderCancelled {
        /// The order.
        reference: U64,
        /// Cancelled shares.
        shares: U32,
    }
    /// `D`: an order left the book.
    OrderDeleted {
        /// The order.
        reference: U64,
    }
    /// `U`: an order was replaced by a new one on the same side.
    OrderReplaced {
        /// The order that leaves.
        reference: U64,
        /// The order that enters.
        new_reference: U64,
        /// The new order's shares.
        shares: U32,
        /// The new order's price.
        price: Price4,
    }
    /// `P`: a trade against an order that was not displayed.
    Trade {
        /// 0 since 2014.
        reference: U64,
        /// `B` since 2014.
        side: u8,
        /// Traded shares.
        shares: U32,
        /// The symbol.
        stock: Stock,
        /// Trade price.
        price: Price4,
        /// The day's unique number of the match.
        match_number: U64,
    }
    /// `Q`: the result of a cross.
    CrossTrade {
        /// Shares matched in the cross; may be 0.
        shares: U64,
        /// The symbol.
        stock: Stock,
        /// The cross's price.
        price: Price4,
        /// The day's unique number of the match.
        match_number: U64,
        /// `O` opening, `C` closing, `H` after a halt or at an offering.
        cross_type: u8,
    }
    /// `B`: an earlier execution is void.
    BrokenTrade {
        /// The match that is void.
        match_number: U64,
    }
    /// `I`: net order imbalance before a cross.
    Imbalance {
        /// Shares that would pair now.
        paired: U64,
        /// Shares that would remain.
        imbalance: U64,
        /// `B`, `S`, `N` none, `O` too few orders, `P` paused.
        direction: u8,
        /// The symbol.
        stock: Stock,
        /// Hypothetical price of the cross's own orders.
        far_price: Price4,
        /// Hypothetical price with continuous orders included.
        near_price: Price4,
        /// Price at which the imbalance was computed.
        reference_price: Price4,
        /// `O`, `C`, `H` or `A`.
        cross_type: u8,
        /// Deviation of the near price from the nearest touch.
        price_variation: u8,
    }
    /// `N`: retail price improvement interest.
    RetailInterest {
        /// The symbol.
        stock: Stock,
        /// `B`, `S`, `A` both, `N` none.
        interest: u8,
    }
    /// `O`: price discovery of a direct listing with a capital raise.
    DirectListing {
        /// The symbol.
        stock: Stock,
        /// `Y` if eligible to be released.
        open_eligible: u8,
        /// Lowest price of the registration range.
        minimum_price: Price4,
        /// Highest allowed price.
        maximum_price: Price4,
        /// Near execution price.
        near_price: Price4,
        /// When the near execution price was taken, in ns since midnight.
        near_time_ns: U64,
        /// Lower auction collar.
        lower: Price4,
        /// Upper auction collar.
        upper: Price4,
    }
}
