//! NASDAQ TotalView-ITCH 5.0: every message type as a view of its bytes, read and written by the same definition.
//!
//! Source: "NASDAQ TotalView-ITCH 5.0", NASDAQ OMX. All integers are big-endian, prices have four implied decimals
//! (eight in `V`), symbols are padded with spaces. In a file each message follows its length, two bytes big-endian.
//!
//! ```
//! use isobar::market::itch::{Framed, Header, Message, OrderDeleted, frame};
//!
//! let mut bytes = Vec::new();
//! OrderDeleted { header: Header::new(b'D', 7, 34_200_000_000_000), reference: 42.into() }.write_to(&mut bytes);
//! let Framed::Body(body) = frame(&bytes) else { panic!("a whole message was written") };
//! let Ok(Message::OrderDeleted(order)) = Message::decode(body) else { panic!("it was a D") };
//! assert_eq!((order.header.locate.get(), order.reference.get()), (7, 42));
//! assert!(Message::decode(&body[1..]).is_err());
//! ```

mod fields;
mod frame;
mod message;
mod messages;

pub use fields::{Header, Price4, Price8, Stock, Timestamp};
pub use frame::{Framed, MAX_FRAME, PREFIX, frame};
pub use message::{DecodeError, Message};
pub use messages::*;
