//! Run time: the operators. None knows what builds them.

pub mod group;
pub mod join;
pub mod order;
pub mod scan;
pub mod shared;
pub mod unfold;
pub mod window;
