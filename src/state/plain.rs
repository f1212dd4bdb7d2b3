//! Keys and values that are plain bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A fixed-size type that is nothing but its bytes: every bit pattern is valid and there is no padding, so that it can
/// lie in a page, be written to a snapshot and be read in place after a restore. Implemented for every type with
/// zerocopy's four derives:
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Order {
///     price: i64,
///     shares: u32,
///     side: u32, // a byte would leave padding, which does not compile
/// }
/// fn is_plain<T: isobar::state::Plain>() {}
/// is_plain::<Order>();
/// ```
///
/// Keys are equal when their bytes are. The bytes are stored as the machine has them: a snapshot is for machines of
/// the same byte order.
pub trait Plain: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + 'static> Plain for T {}
