//! Run time: the operators. They do not know the builder.

pub mod group;
pub mod join;
pub mod order;
pub mod scan;
pub mod shared;
pub mod unfold;
pub mod window;
