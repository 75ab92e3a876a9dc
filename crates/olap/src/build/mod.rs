//! Plan time: puts the operators together for a plan. The only room that knows the builder.

mod builder;
mod group;
mod grouping_sets;
mod inner_join;
mod join_limits;
mod outer_join;
mod parts;
mod runtime_filters;
mod scan;
mod shared;
mod stage;
mod statistics;
mod top;
mod unfold;
mod window;

pub use self::builder::{Manner, build};
