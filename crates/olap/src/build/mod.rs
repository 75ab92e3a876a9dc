//! Plan time: puts the operators together for a plan. The only room that knows [`Builder`].

mod builder;
pub mod group;
pub mod grouping_sets;
pub mod inner_join;
pub mod join_limits;
pub mod outer_join;
pub mod scan;
pub mod statistics;
pub mod top;

pub use self::builder::{Builder, Manner, Stage, build, columns_of, cooperative};
