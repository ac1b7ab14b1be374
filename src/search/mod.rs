//! Which configuration a slot has: pure functions of (sweep, slot).
