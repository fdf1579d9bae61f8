//! The first-level cache of one CPU and its filter: a line that leaves the cache leaves the filter.

use std::sync::Arc;

use super::filter::Filter;
use super::private::{Found, PrivateCache};
use crate::model;

/// The cache; see the module documentation.
#[derive(Debug)]
pub(crate) struct L1 {
    cache: PrivateCache,
    filter: Arc<Filter>,
}

impl L1 {
    pub(crate) fn new(cache: &model::Cache) -> Self {
        Self { cache: PrivateCache::new(cache), filter: Arc::new(Filter::new()) }
    }

    /// The filter, for the CPU's own use.
    pub(crate) fn filter(&self) -> Arc<Filter> {
        Arc::clone(&self.filter)
    }

    /// As [`PrivateCache::touch`].
    #[inline]
    pub(crate) fn touch(&self, line: u64) -> Found {
        self.cache.touch(line)
    }

    /// As [`PrivateCache::insert`].
    pub(crate) fn insert(&self, line: u64, writable: bool) {
        self.cache.insert(line, writable);
        self.filter.forget_set(line, self.cache.sets());
    }

    /// As [`PrivateCache::make_writable`].
    pub(crate) fn make_writable(&self, line: u64) {
        self.cache.make_writable(line);
    }

    /// As [`PrivateCache::make_shared`].
    pub(crate) fn make_shared(&self, line: u64) {
        self.cache.make_shared(line);
        self.filter.forget(line);
    }

    /// As [`PrivateCache::remove`].
    pub(crate) fn remove(&self, line: u64) -> bool {
        let there = self.cache.remove(line);
        if there {
            self.filter.forget(line);
        }
        there
    }
}
