//! Any message: decoding by type and length, and encoding.

use super::{fields::Header, messages::*};
use thiserror::Error;
use zerocopy::{FromBytes, IntoBytes};

/// Why a body is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The body has no bytes, so no type.
    #[error("empty message")]
    Empty,
    /// No message has this type.
    #[error("unknown message type 0x{0:02x}")]
    UnknownType(u8),
    /// The type has another length.
    #[error("message type {} has {expected} bytes, not {found}", char::from(*message_type))]
    Length {
        /// The message's type.
        message_type: u8,
        /// The bytes that its type has.
        expected: u16,
        /// The bytes that it had.
        found: u16,
    },
}

/// Declares the message enum together with what depends on the type: letter, length, decoding, bytes.
macro_rules! messages {
    ($( $letter:literal $name:ident )*) => {
        /// A view of one message of any type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Message<'a> {
            $( #[doc = concat!("Type `", stringify!($letter), "`.")] $name(&'a $name), )*
        }

        impl<'a> Message<'a> {
            /// All message types, in the order of the specification.
            pub const TYPES: &'static [u8] = &[$( $letter, )*];

            /// The length of a body of type `message_type` in bytes, or `None` if no message has that type.
            #[inline]
            pub const fn length_of(message_type: u8) -> Option<usize> {
                match message_type {
                    $( $letter => Some(size_of::<$name>()), )*
                    _ => None,
                }
            }

            /// Reads `body`, the bytes behind a length prefix, without copying.
            ///
            /// # Errors
            /// An empty body, an unknown type, and any length but that of the type.
            #[inline]
            pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
                let &message_type = body.first().ok_or(DecodeError::Empty)?;
                match message_type {
                    $( $letter => match $name::ref_from_bytes(body) {
                        Ok(view) => Ok(Self::$name(view)),
                        Err(_) => Err(DecodeError::Length {
                            message_type,
                            expected: size_of::<$name>() as u16,
                            found: u16::try_from(body.len()).unwrap_or(u16::MAX),
                        }),
                    }, )*
                    _ => Err(DecodeError::UnknownType(message_type)),
                }
            }

            /// Type, security, tracking number and time.
            #[inline]
            pub fn header(&self) -> &'a Header {
                match *self {
                    $( Self::$name(view) => &view.header, )*
                }
            }

            /// The message's body, without a length prefix.
            #[inline]
            pub fn as_bytes(&self) -> &'a [u8] {
                match *self {
                    $( Self::$name(view) => view.as_bytes(), )*
                }
            }
        }

        $(
            impl $name {
                /// The message type's letter.
                pub const TYPE: u8 = $letter;

                /// Appends the message to `out` behind its length prefix.
                #[inline]
                pub fn write_to(&self, out: &mut Vec<u8>) {
                    out.extend_from_slice(&(size_of::<Self>() as u16).to_be_bytes());
                    out.extend_from_slice(self.as_bytes());
                }
            }
        )*
    };
}

messages! {
    b'S' SystemEvent
    b'R' StockDirectory
    b'H' TradingAction
    b'Y' RegSho
    b'L' ParticipantPosition
    b'V' CircuitBreakerLevels
    b'W' CircuitBreakerStatus
    b'K' IpoQuotingPeriod
    b'J' AuctionCollar
    b'h' OperationalHalt
    b'A' AddOrder
    b'F' AddOrderAttributed
    b'E' OrderExecuted
    b'C' OrderExecutedWithPrice
    b'X' OrderCancelled
    b'D' OrderDeleted
    b'U' OrderReplaced
    b'P' Trade
    b'Q' CrossTrade
    b'B' BrokenTrade
    b'I' Imbalance
    b'N' RetailInterest
    b'O' DirectListing
}

impl Message<'_> {
    /// Appends the message to `out` behind its length prefix.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let body = self.as_bytes();
        out.extend_from_slice(&(body.len() as u16).to_be_bytes());
        out.extend_from_slice(body);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Stock;
    use super::*;
    use proptest::prelude::*;

    /// Lengths from the tables of the specification, TotalView-ITCH 5.0.
    const LENGTHS: [(u8, usize); 23] = [
        (b'S', 12),
        (b'R', 39),
        (b'H', 25),
        (b'Y', 20),
        (b'L', 26),
        (b'V', 35),
        (b'W', 12),
        (b'K', 28),
        (b'J', 35),
        (b'h', 21),
        (b'A', 36),
        (b'F', 40),
        (b'E', 31),
        (b'C', 36),
        (b'X', 23),
        (b'D', 19),
        (b'U', 35),
        (b'P', 44),
        (b'Q', 40),
        (b'B', 19),
        (b'I', 50),
        (b'N', 20),
        (b'O', 48),
    ];

    #[test]
    fn every_type_has_the_length_of_the_specification_and_no_other() {
        assert_eq!(Message::TYPES.len(), LENGTHS.len());
        for (message_type, length) in LENGTHS {
            assert_eq!(Message::length_of(message_type), Some(length), "{}", char::from(message_type));
            for found in 1..=64 {
                let mut body = vec![0; found];
                body[0] = message_type;
                assert_eq!(Message::decode(&body).is_ok(), found == length);
            }
        }
    }

    #[test]
    fn what_is_no_message_says_why() {
        assert_eq!(Message::decode(b""), Err(DecodeError::Empty));
        assert_eq!(Message::decode(b"Z"), Err(DecodeError::UnknownType(b'Z')));
        let error = Message::decode(b"D123").unwrap_err();
        assert_eq!(error.to_string(), "message type D has 19 bytes, not 4");
    }

    #[test]
    fn the_fields_of_an_add_order_lie_where_the_specification_puts_them() {
        let order = AddOrder {
            header: Header::new(b'A', 0x0102, 0x0304_0506_0708),
            reference: 0x1112_1314_1516_1718.into(),
            side: b'B',
            shares: 0x2122_2324.into(),
            stock: Stock::new("ZVZZT"),
            price: 0x3132_3334.into(),
        };
        let mut bytes = Vec::new();
        order.write_to(&mut bytes);
        let mut expected = vec![0, 36, b'A', 1, 2, 0, 0, 3, 4, 5, 6, 7, 8];
        expected.extend([0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, b'B', 0x21, 0x22, 0x23, 0x24]);
        expected.extend(*b"ZVZZT   ");
        expected.extend([0x31, 0x32, 0x33, 0x34]);
        assert_eq!(bytes, expected);
        assert_eq!(Message::decode(&bytes[2..]), Ok(Message::AddOrder(&order)));
    }

    proptest! {
        #[test]
        fn any_body_of_a_types_length_is_written_as_it_was_read(
            which in 0..LENGTHS.len(), bytes in proptest::collection::vec(any::<u8>(), 64)
        ) {
            let (message_type, length) = LENGTHS[which];
            let mut body = bytes[..length].to_vec();
            body[0] = message_type;
            let mut framed = Vec::new();
            Message::decode(&body).unwrap().write_to(&mut framed);
            prop_assert_eq!(&framed[..2], &(length as u16).to_be_bytes());
            prop_assert_eq!(&framed[2..], &body);
        }

        #[test]
        fn no_bytes_panic_the_decoder(body in proptest::collection::vec(any::<u8>(), 0..70)) {
            if let Ok(message) = Message::decode(&body) {
                prop_assert_eq!(message.as_bytes(), &body);
            }
        }
    }
}
