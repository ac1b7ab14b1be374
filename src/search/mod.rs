//! Which configuration a slot has: pure functions of (sweep, slot).
//!
//! Nothing is remembered and nothing enumerated, so slot 10^12 costs as much as slot 0, and a
//! process that starts anew hands out the same configurations.

mod grid;
mod random;

use indexmap::IndexMap;
use serde_json::Value;

use crate::sweep::{Method, SweepSpec};

/// A run's parameters, their names sorted by code point.
pub type Config = IndexMap<String, Value>;

/// The configuration of a slot, counted from 0; `None` beyond a grid's end.
///
/// Grid: names are sorted, the last one varies fastest, and values come in their listed order.
/// Random: an independent draw from (`seed`, `slot`, parameter name); adding a parameter changes
/// no other parameter's draws.
#[must_use]
pub fn configuration(spec: &SweepSpec, seed: u64, slot: u64) -> Option<Config> {
    match spec.method {
        Method::Grid => grid::point(spec, slot),
        Method::Random => Some(random::draw(spec, seed, slot)),
        Method::Bayes | Method::Custom => None,
    }
}

/// How many distinct points the grid has, saturating; `None` for another method.
pub(crate) fn grid_size(spec: &SweepSpec) -> Option<u64> {
    (spec.method == Method::Grid).then(|| grid::size(spec)).flatten()
}

/// The parameters in the order of their names' code points.
fn sorted(spec: &SweepSpec) -> Vec<(&String, &crate::sweep::Parameter)> {
    let mut parameters: Vec<_> = spec.parameters.iter().collect();
    // UTF-8 sorts by code point.
    parameters.sort_by_key(|(name, _)| *name);
    parameters
}
