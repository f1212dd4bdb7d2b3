//! Stand-in until the state engine lands: the same API over plain maps.
use std::{any::Any, collections::BTreeMap, marker::PhantomData};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub trait Plain: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Send + 'static {}
impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Send + 'static> Plain for T {}

#[derive(Debug, thiserror::Error)]
#[error("state")]
pub struct StateError;

#[derive(Default)]
pub struct Arena {
    group: u16,
    names: Vec<String>,
    states: Vec<Box<dyn Any + Send>>,
}
impl Arena {
    pub fn set_key_group(&mut self, group: u16) {
        self.group = group;
    }
    fn open<T: Any + Send + Default>(&mut self, name: &str) -> usize {
        if let Some(i) = self.names.iter().position(|n| n == name) {
            return i;
        }
        self.names.push(name.into());
        self.states.push(Box::new(T::default()));
        self.states.len() - 1
    }
}
type Map<V> = BTreeMap<(u16, Vec<u8>), V>;
pub struct KeyedMap<K, V> {
    id: usize,
    _kv: PhantomData<fn() -> (K, V)>,
}
impl<K: Plain, V: Plain> KeyedMap<K, V> {
    pub fn open(arena: &mut Arena, name: &str, _version: u32) -> Result<Self, StateError> {
        Ok(Self { id: arena.open::<Map<V>>(name), _kv: PhantomData })
    }
    fn map<'a>(&self, arena: &'a Arena) -> &'a Map<V> {
        arena.states[self.id].downcast_ref().unwrap()
    }
    fn key(arena: &Arena, k: &K) -> (u16, Vec<u8>) {
        (arena.group, k.as_bytes().to_vec())
    }
    pub fn get<'a>(&self, arena: &'a Arena, k: &K) -> Option<&'a V> {
        self.map(arena).get(&Self::key(arena, k))
    }
    fn map_mut<'a>(&self, arena: &'a mut Arena) -> &'a mut Map<V> {
        arena.states[self.id].downcast_mut().unwrap()
    }
    pub fn insert(&self, arena: &mut Arena, k: K, v: V) -> Result<Option<V>, StateError> {
        let key = Self::key(arena, &k);
        Ok(self.map_mut(arena).insert(key, v))
    }
    pub fn modify<R>(&self, arena: &mut Arena, k: &K, f: impl FnOnce(&mut V) -> R) -> Result<Option<R>, StateError> {
        let key = Self::key(arena, k);
        Ok(self.map_mut(arena).get_mut(&key).map(f))
    }
    pub fn upsert<R>(
        &self,
        arena: &mut Arena,
        k: K,
        default: V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        let key = Self::key(arena, &k);
        Ok(f(self.map_mut(arena).entry(key).or_insert(default)))
    }
    pub fn remove(&self, arena: &mut Arena, k: &K) -> Result<Option<V>, StateError> {
        let key = Self::key(arena, k);
        Ok(self.map_mut(arena).remove(&key))
    }
    pub fn for_each(&self, arena: &Arena, mut f: impl FnMut(&K, &V)) {
        for ((_, k), v) in self.map(arena) {
            f(&K::read_from_bytes(k).unwrap(), v)
        }
    }
    pub fn for_each_in_group(&self, arena: &Arena, mut f: impl FnMut(&K, &V)) {
        for ((group, k), v) in self.map(arena) {
            if *group == arena.group {
                f(&K::read_from_bytes(k).unwrap(), v)
            }
        }
    }
    pub fn len(&self, arena: &Arena) -> usize {
        self.map(arena).len()
    }
}
pub struct KeyedList<K, V> {
    id: usize,
    _kv: PhantomData<fn() -> (K, V)>,
}
impl<K: Plain, V: Plain> KeyedList<K, V> {
    pub fn open(arena: &mut Arena, name: &str, _version: u32) -> Result<Self, StateError> {
        Ok(Self { id: arena.open::<Map<Vec<V>>>(name), _kv: PhantomData })
    }
    pub fn get<'a>(&self, arena: &'a Arena, k: &K) -> &'a [V] {
        let map: &Map<Vec<V>> = arena.states[self.id].downcast_ref().unwrap();
        map.get(&(arena.group, k.as_bytes().to_vec())).map_or(&[], |v| v)
    }
    fn list<'a>(&self, arena: &'a mut Arena, k: &K) -> &'a mut Vec<V> {
        let key = (arena.group, k.as_bytes().to_vec());
        arena.states[self.id].downcast_mut::<Map<Vec<V>>>().unwrap().entry(key).or_default()
    }
    pub fn push(&self, arena: &mut Arena, k: K, v: V) -> Result<(), StateError> {
        self.list(arena, &k).push(v);
        assert!(self.list(arena, &k).len() * size_of::<V>() <= 256 << 10);
        Ok(())
    }
    pub fn insert(&self, arena: &mut Arena, k: K, index: usize, v: V) -> Result<(), StateError> {
        self.list(arena, &k).insert(index, v);
        assert!(self.list(arena, &k).len() * size_of::<V>() <= 256 << 10);
        Ok(())
    }
    pub fn remove(&self, arena: &mut Arena, k: &K, index: usize) -> Result<Option<V>, StateError> {
        let list = self.list(arena, k);
        Ok((index < list.len()).then(|| list.remove(index)))
    }
    pub fn modify<R>(
        &self,
        arena: &mut Arena,
        k: &K,
        index: usize,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<Option<R>, StateError> {
        Ok(self.list(arena, k).get_mut(index).map(f))
    }
    pub fn truncate(&self, arena: &mut Arena, k: &K, len: usize) -> Result<(), StateError> {
        self.list(arena, k).truncate(len);
        Ok(())
    }
    pub fn remove_key(&self, arena: &mut Arena, k: &K) -> Result<(), StateError> {
        let key = (arena.group, k.as_bytes().to_vec());
        arena.states[self.id].downcast_mut::<Map<Vec<V>>>().unwrap().remove(&key);
        Ok(())
    }
}
