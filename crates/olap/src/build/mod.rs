//! Plan time: builds the operators of a plan. This is the only room that uses the builder.

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
