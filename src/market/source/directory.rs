//! Who is who, as state of a source: an ITCH locate code and a symbol name each other for the whole day, and a DBN
//! instrument has one publisher.

use crate::{
    market::{fault::FaultKind, itch::Stock, symbol::SymbolCode},
    state::{Arena, KeyedMap, StateError},
};

/// The names of ITCH locate codes and back. Both sources keep one, so that both accept the same messages.
pub(super) struct Directory {
    names: KeyedMap<u32, u64>,
    locates: KeyedMap<u64, u32>,
    /// The names by locate code, 0 where there is none: what `names` holds, for the common case.
    cache: Box<[u64]>,
}

impl Directory {
    /// Registers the states, whose names begin with `operator`, and reads what was restored.
    pub(super) fn open(state: &mut Arena, operator: &str) -> Result<Self, StateError> {
        let names: KeyedMap<u32, u64> = KeyedMap::open(state, &format!("{operator}.names"), 1)?;
        let locates = KeyedMap::open(state, &format!("{operator}.locates"), 1)?;
        let mut cache = vec![0; 1 << 16].into_boxed_slice();
        names.for_each(state, |&locate, &name| {
            if let Some(slot) = cache.get_mut(locate as usize) {
                *slot = name;
            }
        });
        Ok(Self { names, locates, cache })
    }

    /// Accepts that `locate` is called `stock`, or says why it cannot be.
    #[inline]
    pub(super) fn admit(
        &mut self,
        state: &mut Arena,
        locate: u16,
        stock: Stock,
    ) -> Result<Result<(), (FaultKind, u64)>, StateError> {
        let name = SymbolCode::of_stock(stock).0;
        if self.cache[usize::from(locate)] == name { Ok(Ok(())) } else { self.admit_new(state, locate, name) }
    }

    #[cold]
    fn admit_new(
        &mut self,
        state: &mut Arena,
        locate: u16,
        name: u64,
    ) -> Result<Result<(), (FaultKind, u64)>, StateError> {
        if self.cache[usize::from(locate)] != 0 {
            return Ok(Err((FaultKind::SecondName, u64::from(locate))));
        }
        if self.locates.get(state, &name).is_some() {
            return Ok(Err((FaultKind::SecondLocate, name)));
        }
        self.names.insert(state, u32::from(locate), name)?;
        self.locates.insert(state, name, u32::from(locate))?;
        self.cache[usize::from(locate)] = name;
        Ok(Ok(()))
    }
}

/// The publishers of DBN instruments. Both sources keep them, so that both accept the same records.
pub(super) struct Publishers {
    publishers: KeyedMap<u32, u32>,
    /// The last instrument and its publisher.
    last: Option<(u32, u32)>,
}

impl Publishers {
    /// Registers the state, whose name begins with `operator`.
    pub(super) fn open(state: &mut Arena, operator: &str) -> Result<Self, StateError> {
        Ok(Self { publishers: KeyedMap::open(state, &format!("{operator}.publishers"), 1)?, last: None })
    }

    /// Whether `publisher` is the first, and so the only one of `instrument`.
    #[inline]
    pub(super) fn admit(&mut self, state: &mut Arena, instrument: u32, publisher: u16) -> Result<bool, StateError> {
        let publisher = u32::from(publisher);
        if self.last == Some((instrument, publisher)) {
            return Ok(true);
        }
        let known = self.publishers.get(state, &instrument).copied();
        if known.is_none() {
            self.publishers.insert(state, instrument, publisher)?;
        }
        let first = known.unwrap_or(publisher);
        self.last = Some((instrument, first));
        Ok(first == publisher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ArenaOptions;

    #[test]
    fn names_and_locates_bind_each_other_also_after_a_restore() {
        let mut state = Arena::new(ArenaOptions::default()).unwrap();
        let mut directory = Directory::open(&mut state, "orders").unwrap();
        let [a, b] = ["A", "B"].map(Stock::new);
        let mut admit = |directory: &mut Directory, locate, stock| directory.admit(&mut state, locate, stock).unwrap();
        assert_eq!(admit(&mut directory, 0, a), Ok(()));
        assert_eq!(admit(&mut directory, 0, a), Ok(()));
        assert_eq!(admit(&mut directory, 0, b), Err((FaultKind::SecondName, 0)));
        assert_eq!(admit(&mut directory, 65_535, a).unwrap_err().0, FaultKind::SecondLocate);
        assert_eq!(admit(&mut directory, 65_535, b), Ok(()));
        directory.cache.fill(0);
        directory.names.for_each(&state, |&locate, &name| directory.cache[locate as usize] = name);
        assert_eq!(directory.admit(&mut state, 65_535, a).unwrap(), Err((FaultKind::SecondName, 65_535)));
    }

    #[test]
    fn the_first_publisher_is_the_only_one() {
        let mut state = Arena::new(ArenaOptions::default()).unwrap();
        let mut publishers = Publishers::open(&mut state, "orders").unwrap();
        for (instrument, publisher, admitted) in
            [(1, 5, true), (1, 6, false), (1, 5, true), (2, 6, true), (1, 6, false)]
        {
            assert_eq!(publishers.admit(&mut state, instrument, publisher).unwrap(), admitted);
        }
    }
}
