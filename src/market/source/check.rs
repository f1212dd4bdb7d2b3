//! The checks of single messages: what a message must be to be accepted, whatever came before it.

use crate::market::{
    fault::{Fault, FaultKind},
    input::Mbo,
    itch::{DecodeError, Message, Stock},
};

/// The highest price of an ITCH order, execution or trade: 200,000.0000 dollars.
const MAX_PRICE: u32 = 2_000_000_000;

/// A reason to reject a message, and its detail.
type Reason = (FaultKind, u64);

/// Decodes the ITCH message at `offset` and checks its fields. Symbols are checked against each other elsewhere.
#[inline]
pub(super) fn check_itch(body: &[u8], offset: u64) -> Result<Message<'_>, Fault> {
    let subject = body.first().copied().unwrap_or(0);
    let fault = |(kind, detail)| Fault { offset, kind, subject, detail };
    let message = Message::decode(body).map_err(|error| {
        fault(match error {
            DecodeError::Empty => (FaultKind::ZeroLength, 0),
            DecodeError::UnknownType(_) => (FaultKind::UnknownType, 0),
            DecodeError::Length { found, .. } => (FaultKind::WrongLength, u64::from(found)),
        })
    })?;
    check_fields(&message).map_err(fault)?;
    Ok(message)
}

#[inline]
fn check_fields(message: &Message<'_>) -> Result<(), Reason> {
    match message {
        Message::AddOrder(m) => order(m.side, m.shares.get(), m.price.get(), m.stock),
        Message::AddOrderAttributed(m) => order(m.side, m.shares.get(), m.price.get(), m.stock),
        Message::Trade(m) => order(m.side, m.shares.get(), m.price.get(), m.stock),
        Message::OrderExecuted(m) => shares(m.shares.get()),
        Message::OrderExecutedWithPrice(m) => {
            shares(m.shares.get())?;
            price(m.price.get())?;
            match m.printable {
                b'Y' | b'N' => Ok(()),
                other => Err((FaultKind::BadPrintable, u64::from(other))),
            }
        }
        Message::OrderCancelled(m) => shares(m.shares.get()),
        Message::OrderReplaced(m) => shares(m.shares.get()).and_then(|()| price(m.price.get())),
        Message::CrossTrade(m) => symbol(m.stock),
        Message::StockDirectory(m) => symbol(m.stock),
        _ => Ok(()),
    }
}

#[inline]
fn order(side: u8, of_shares: u32, of_price: u32, stock: Stock) -> Result<(), Reason> {
    if !matches!(side, b'B' | b'S') {
        return Err((FaultKind::BadSide, u64::from(side)));
    }
    shares(of_shares)?;
    price(of_price)?;
    symbol(stock)
}

#[inline]
fn shares(shares: u32) -> Result<(), Reason> {
    if shares == 0 { Err((FaultKind::ZeroShares, 0)) } else { Ok(()) }
}

#[inline]
fn price(price: u32) -> Result<(), Reason> {
    if price > MAX_PRICE { Err((FaultKind::BadPrice, u64::from(price))) } else { Ok(()) }
}

#[inline]
fn symbol(stock: Stock) -> Result<(), Reason> {
    if stock.0 == [b' '; 8] {
        Err((FaultKind::BlankSymbol, 0))
    } else if stock.0.iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'"')) {
        Ok(())
    } else {
        Err((FaultKind::BadSymbol, u64::from_be_bytes(stock.0)))
    }
}

/// Checks the fields of a market-by-order record. Publishers are checked elsewhere.
#[inline]
pub(super) fn check_mbo(mbo: &Mbo) -> Result<(), Reason> {
    if mbo.flags & (dbn::flags::TOB | dbn::flags::MBP) != 0 {
        return Err((FaultKind::NotByOrder, 0));
    }
    let either_side = match mbo.action {
        b'A' | b'C' | b'M' => false,
        b'T' => true,
        b'F' | b'R' | b'N' => return Ok(()),
        _ => return Err((FaultKind::UnknownAction, 0)),
    };
    match mbo.side {
        b'A' | b'B' => {}
        b'N' if either_side => {}
        other => return Err((FaultKind::BadSide, u64::from(other))),
    }
    if mbo.price.get() == dbn::UNDEF_PRICE {
        return Err((FaultKind::BadPrice, dbn::UNDEF_PRICE as u64));
    }
    shares(mbo.size.get())
}
