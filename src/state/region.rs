//! Reserved address space, as cells that one owner and one writer share under the protocol of [`super::epoch`].

use zerocopy::FromZeros;

use super::StateError;

/// `len` cells of `T`, all zero, whose memory the system supplies on first touch.
///
/// Access goes through closures, as with loom's `UnsafeCell`, and hands out raw pointers: *who* may dereference them,
/// and when, is the epoch protocol's business, and under loom every access is checked against it.
pub(crate) struct Region<T> {
    memory: memory::Memory<T>,
    len: u32,
}

impl<T: FromZeros> Region<T> {
    /// Reserves room for `len` cells (at least one).
    pub fn reserve(len: u32) -> Result<Self, StateError> {
        let len = len.max(1);
        Ok(Self { memory: memory::Memory::reserve(len as usize)?, len })
    }

    /// Calls `f` with a pointer to cell `index` for reading.
    #[inline(always)]
    pub fn read<R>(&self, index: u32, f: impl FnOnce(*const T) -> R) -> R {
        assert!(index < self.len, "cell {index} of {}", self.len);
        self.memory.read(index as usize, f)
    }

    /// Calls `f` with a pointer to cell `index` for writing.
    #[inline(always)]
    pub fn write<R>(&self, index: u32, f: impl FnOnce(*mut T) -> R) -> R {
        assert!(index < self.len, "cell {index} of {}", self.len);
        self.memory.write(index as usize, f)
    }

    /// Asks the system to back everything from `from` on with huge pages. Only a hint: nothing depends on it.
    pub fn advise_huge_from(&self, from: u32) {
        self.memory.advise_huge_from(from.min(self.len) as usize);
    }
}

#[cfg(not(isobar_loom))]
mod memory {
    use std::{marker::PhantomData, ptr::NonNull};

    use memmap2::{MmapMut, MmapOptions};
    use zerocopy::FromZeros;

    use crate::state::StateError;

    pub(super) struct Memory<T> {
        map: MmapMut,
        base: NonNull<T>,
        _cells: PhantomData<T>,
    }

    // SAFETY: the memory is owned by the mapping and not tied to a thread; all access is through raw pointers that the
    // epoch protocol hands to one thread at a time for writing.
    unsafe impl<T: Send> Send for Memory<T> {}
    // SAFETY: as above; sharing the region shares only pointers, and `T: Sync` values may be read from two threads.
    unsafe impl<T: Send + Sync> Sync for Memory<T> {}

    impl<T: FromZeros> Memory<T> {
        pub fn reserve(len: usize) -> Result<Self, StateError> {
            let bytes = len.saturating_mul(size_of::<T>());
            let fail =
                |error: std::io::Error| StateError::Reserve { bytes: bytes as u64, reason: error.to_string().into() };
            let mut map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon().map_err(fail)?;
            let base = NonNull::new(map.as_mut_ptr().cast::<T>())
                .ok_or_else(|| fail(std::io::Error::other("mapped at address zero")))?;
            Ok(Self { map, base, _cells: PhantomData })
        }

        #[inline(always)]
        pub fn read<R>(&self, index: usize, f: impl FnOnce(*const T) -> R) -> R {
            // SAFETY: the caller has checked that `index` is below the number of cells reserved.
            f(unsafe { self.base.as_ptr().add(index) })
        }

        #[inline(always)]
        pub fn write<R>(&self, index: usize, f: impl FnOnce(*mut T) -> R) -> R {
            // SAFETY: as in `read`.
            f(unsafe { self.base.as_ptr().add(index) })
        }

        pub fn advise_huge_from(&self, from: usize) {
            let start = from * size_of::<T>();
            if start < self.map.len() {
                // A kernel without transparent huge pages refuses; small pages do the same work.
                let _ = self.map.advise_range(memmap2::Advice::HugePage, start, self.map.len() - start);
            }
        }
    }
}

#[cfg(isobar_loom)]
mod memory {
    use zerocopy::FromZeros;

    use crate::{state::StateError, sync::UnsafeCell};

    /// Contiguous memory as in production, and one loom cell beside each element that records who touches it.
    pub(super) struct Memory<T> {
        base: *mut T,
        len: usize,
        cells: Vec<UnsafeCell<()>>,
    }

    // SAFETY: as for the mapped memory; loom checks what is assumed there.
    unsafe impl<T: Send> Send for Memory<T> {}
    // SAFETY: as above.
    unsafe impl<T: Send + Sync> Sync for Memory<T> {}

    impl<T: FromZeros> Memory<T> {
        pub fn reserve(len: usize) -> Result<Self, StateError> {
            let elements: Box<[T]> = (0..len).map(|_| T::new_zeroed()).collect();
            let base = Box::into_raw(elements).cast::<T>();
            Ok(Self { base, len, cells: (0..len).map(|_| UnsafeCell::new(())).collect() })
        }

        pub fn read<R>(&self, index: usize, f: impl FnOnce(*const T) -> R) -> R {
            // SAFETY: the caller has checked the index.
            self.cells[index].with(|_| f(unsafe { self.base.add(index) }))
        }

        pub fn write<R>(&self, index: usize, f: impl FnOnce(*mut T) -> R) -> R {
            // SAFETY: the caller has checked the index.
            self.cells[index].with_mut(|_| f(unsafe { self.base.add(index) }))
        }

        pub fn advise_huge_from(&self, _from: usize) {}
    }

    impl<T> Drop for Memory<T> {
        fn drop(&mut self) {
            // SAFETY: made by `Box::into_raw` from a boxed slice of this length in `reserve`, and freed once.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.base, self.len)) });
        }
    }
}
