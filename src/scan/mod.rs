//! The two custom scan nodes.

pub fn init() {}
