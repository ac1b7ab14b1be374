//! Which configuration a slot has: pure functions of (sweep, slot).
//!
//! Nothing is remembered and nothing enumerated, so slot 10^12 costs as much as slot 0, and a
//! process that starts anew hands out the same configurations.

mod grid;
mod quantile;
mod random;
mod representative;
mod special;
#[cfg(test)]
mod statistics;
#[cfg(test)]
pub(crate) mod vectors;

use indexmap::IndexMap;
use serde_json::Value;

use crate::sweep::{Method, Parameter, SweepSpec};

pub use grid::{Grid, countable};
pub use quantile::representable;
pub use representative::representative;

/// A run's parameters, their names sorted by code point; a group is a mapping of its members.
pub type Config = IndexMap<String, Value>;

/// The configuration of a slot, counted from 0; `None` beyond a grid's end.
///
/// Grid: names are sorted, the last one varies fastest, and values come in their listed order.
/// Random: an independent draw from (`seed`, `slot`, parameter name); adding a parameter changes
/// no other parameter's draws. Bayes and custom search: always `None`, they are W&B's.
#[must_use]
pub fn configuration(spec: &SweepSpec, seed: u64, slot: u64) -> Option<Config> {
    match spec.method {
        Method::Grid => Grid::open(spec)?.point(slot.into()),
        Method::Random => Some(random::draw(spec, seed, slot)),
        Method::Bayes | Method::Custom => None,
    }
}

/// How many distinct points the grid has, saturating; `None` for another method.
pub(crate) fn grid_size(spec: &SweepSpec) -> Option<u64> {
    let grid = Grid::open(spec).filter(|_| spec.method == Method::Grid)?;
    Some(grid.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(u64::MAX))
}

/// The parameters in the order of their names' code points.
fn sorted(parameters: &IndexMap<String, Parameter>) -> Vec<(&String, &Parameter)> {
    let mut parameters: Vec<_> = parameters.iter().collect();
    // UTF-8 sorts by code point.
    parameters.sort_by_key(|(name, _)| *name);
    parameters
}
