//! From a Query to an analytic plan.

pub fn init() {}
