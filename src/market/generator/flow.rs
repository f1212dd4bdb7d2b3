//! The flow of market hours: one message at a time, by weights, over the securities' live orders.

use super::{
    clock::DayClock,
    draw::{below, depth, part, shares},
    security::{Live, Security, Side, TICK},
    symbol,
    zipf::Activity,
};
use crate::market::itch::{
    AddOrder, AddOrderAttributed, CrossTrade, Header, Imbalance, OrderCancelled, OrderDeleted, OrderExecuted,
    OrderExecutedWithPrice, OrderReplaced, Trade,
};
use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{Rng, SeedableRng},
};

/// Weights out of 65,536 for what is no add: up to which each kind goes; what is left is a cross.
const DELETE: u16 = 44_000;
const REPLACE: u16 = 53_500;
const EXECUTE: u16 = 59_700;
const CANCEL: u16 = 63_200;
const EXECUTE_AT: u16 = 63_700;
const TRADE: u16 = 65_400;
const IMBALANCE: u16 = 65_500;
/// Weights for an add, below and above the target of live orders.
const ADD_BELOW: u16 = 36_000;
const ADD_ABOVE: u16 = 27_000;

/// All that the flow remembers.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    rng: Xoshiro256PlusPlus,
    clock: DayClock,
    activity: Activity,
    securities: Vec<Security>,
    /// The security of the message before.
    current: u16,
    next_reference: u64,
    next_match: u64,
}

/// What one message is made from.
struct Draw {
    now_ns: u64,
    locate: u16,
    side: Side,
    bits: u64,
}

impl Draw {
    fn header(&self, message_type: u8) -> Header {
        Header::new(message_type, self.locate, self.now_ns)
    }

    fn low(&self) -> u32 {
        self.bits as u32
    }

    fn high(&self) -> u32 {
        (self.bits >> 32) as u32
    }
}

impl Flow {
    /// The flow of `messages` over `symbols` securities, whose locate codes count from 1.
    pub(super) fn new(symbols: u16, messages: u64, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (activity, ranks) = Activity::new(symbols, &mut rng);
        let securities = ranks.iter().map(|&rank| security(rank, rng.next_u64())).collect();
        let clock = DayClock::new(messages);
        Self { rng, clock, activity, securities, current: 0, next_reference: 1, next_match: 1 }
    }

    /// Appends the next message.
    #[inline]
    pub(super) fn next_into(&mut self, out: &mut Vec<u8>) {
        let (time_bits, bits, kind_bits) = (self.rng.next_u64(), self.rng.next_u64(), self.rng.next_u64());
        let (now_ns, in_burst) = self.clock.tick(time_bits);
        // Half of a burst stays with its security. Bits 3 and 4 of the clock's draw are not used by it.
        if !in_burst || time_bits & 8 == 0 {
            self.current = self.activity.pick(kind_bits.rotate_left(17) ^ time_bits);
        }
        let side = if time_bits & 16 == 0 { Side::Bid } else { Side::Ask };
        let draw = Draw { now_ns, locate: self.current + 1, side, bits };
        let security = &mut self.securities[usize::from(self.current)];
        if kind_bits >> 59 == 0 {
            security.drift(kind_bits >> 58 & 1 == 0);
        }
        let live = security.orders(side).len();
        let add = if live < security.target { ADD_BELOW } else { ADD_ABOVE };
        if live == 0 || ((kind_bits as u16) < add && live < 2 * security.target) {
            self.add(&draw, kind_bits, out);
        } else {
            self.change(&draw, (kind_bits >> 16) as u16, out);
        }
    }

    #[inline]
    fn security(&mut self, draw: &Draw) -> &mut Security {
        &mut self.securities[usize::from(draw.locate - 1)]
    }

    fn reference(&mut self) -> u64 {
        self.next_reference += 1;
        self.next_reference - 1
    }

    fn match_number(&mut self) -> u64 {
        self.next_match += 1;
        self.next_match - 1
    }

    fn add(&mut self, draw: &Draw, kind_bits: u64, out: &mut Vec<u8>) {
        let reference = self.reference();
        let security = self.security(draw);
        let order =
            Live { reference, price: security.price(draw.side, depth(draw.low())), shares: shares(draw.high()) };
        security.orders(draw.side).add(order);
        let (side, stock) = (draw.side.letter(), symbol(draw.locate));
        let (reference, shares, price) = (reference.into(), order.shares.into(), order.price.into());
        if kind_bits >> 32 & 31 == 0 {
            let header = draw.header(b'F');
            AddOrderAttributed { header, reference, side, shares, stock, price, attribution: *b"NSDQ" }.write_to(out);
        } else {
            AddOrder { header: draw.header(b'A'), reference, side, shares, stock, price }.write_to(out);
        }
    }

    /// Something happens to a live order; the side has at least one.
    fn change(&mut self, draw: &Draw, kind: u16, out: &mut Vec<u8>) {
        let orders = self.security(draw).orders(draw.side);
        let index = below(draw.bits, orders.len() as u64) as usize;
        match kind {
            ..DELETE => self.delete(draw, index, out),
            DELETE..REPLACE => self.replace(draw, index, out),
            REPLACE..EXECUTE => self.execute(draw, false, out),
            EXECUTE..CANCEL if orders.get(index).shares > 1 => self.cancel(draw, index, out),
            EXECUTE..CANCEL => self.delete(draw, index, out),
            CANCEL..EXECUTE_AT => self.execute(draw, true, out),
            EXECUTE_AT..TRADE => self.trade(draw, out),
            TRADE..IMBALANCE => self.imbalance(draw, out),
            IMBALANCE.. => self.cross(draw, out),
        }
    }

    fn delete(&mut self, draw: &Draw, index: usize, out: &mut Vec<u8>) {
        let order = self.security(draw).orders(draw.side).remove(index);
        OrderDeleted { header: draw.header(b'D'), reference: order.reference.into() }.write_to(out);
    }

    fn cancel(&mut self, draw: &Draw, index: usize, out: &mut Vec<u8>) {
        let orders = self.security(draw).orders(draw.side);
        let order = orders.get(index);
        let shares = part(draw.low(), order.shares);
        orders.reduce(index, shares);
        let header = draw.header(b'X');
        OrderCancelled { header, reference: order.reference.into(), shares: shares.into() }.write_to(out);
    }

    fn replace(&mut self, draw: &Draw, index: usize, out: &mut Vec<u8>) {
        let new_reference = self.reference();
        let security = self.security(draw);
        let old = security.orders(draw.side).remove(index);
        let price = security.price(draw.side, depth(draw.low()));
        let shares = shares(draw.high());
        security.orders(draw.side).add(Live { reference: new_reference, price, shares });
        OrderReplaced {
            header: draw.header(b'U'),
            reference: old.reference.into(),
            new_reference: new_reference.into(),
            shares: shares.into(),
            price: price.into(),
        }
        .write_to(out);
    }

    /// The first order in line is hit, half of the time as a whole; `at_price` reports the execution with its price.
    fn execute(&mut self, draw: &Draw, at_price: bool, out: &mut Vec<u8>) {
        let match_number = self.match_number().into();
        let security = self.security(draw);
        let side = security.pressed(draw.side);
        let orders = security.orders(side);
        // The side of the draw has an order, and so has the side under pressure.
        let Some(index) = orders.first_in_line() else { return };
        let order = orders.get(index);
        let whole = order.shares < 2 || draw.bits & 1 == 0;
        let shares = if whole { order.shares } else { part(draw.high(), order.shares) };
        if whole {
            orders.remove(index);
        } else {
            orders.reduce(index, shares);
        }
        let (reference, shares) = (order.reference.into(), shares.into());
        if at_price {
            let printable = if draw.bits & 2 == 0 { b'Y' } else { b'N' };
            let price = (order.price + TICK / 2).into();
            let header = draw.header(b'C');
            OrderExecutedWithPrice { header, reference, shares, match_number, printable, price }.write_to(out);
        } else {
            OrderExecuted { header: draw.header(b'E'), reference, shares, match_number }.write_to(out);
        }
    }

    fn trade(&mut self, draw: &Draw, out: &mut Vec<u8>) {
        let match_number = self.match_number().into();
        let price = self.security(draw).fair.into();
        Trade {
            header: draw.header(b'P'),
            reference: 0.into(),
            side: b'B',
            shares: shares(draw.high()).into(),
            stock: symbol(draw.locate),
            price,
            match_number,
        }
        .write_to(out);
    }

    fn cross(&mut self, draw: &Draw, out: &mut Vec<u8>) {
        let match_number = self.match_number().into();
        let price = self.security(draw).fair.into();
        CrossTrade {
            header: draw.header(b'Q'),
            shares: u64::from(draw.high() >> 12).into(),
            stock: symbol(draw.locate),
            price,
            match_number,
            cross_type: b'H',
        }
        .write_to(out);
    }

    fn imbalance(&mut self, draw: &Draw, out: &mut Vec<u8>) {
        let price = self.security(draw).fair.into();
        Imbalance {
            header: draw.header(b'I'),
            paired: u64::from(draw.high() >> 12).into(),
            imbalance: u64::from(draw.low() >> 16).into(),
            direction: draw.side.letter(),
            stock: symbol(draw.locate),
            far_price: price,
            near_price: price,
            reference_price: price,
            cross_type: b'H',
            price_variation: b'L',
        }
        .write_to(out);
    }
}

/// The security of activity rank `rank`: the busiest hold some hundred live orders a side, the others a few dozen.
fn security(rank: u16, bits: u64) -> Security {
    let octave = bits & 7;
    let fair = (50_000 << octave) + 100 * below(bits, 500 << octave) as u32;
    Security::new(fair, 24 + 256 / (usize::from(rank) + 2))
}
