//! Lowers the plan's expressions to DataFusion's.

pub mod computed;
pub mod conditional;
pub mod dispatch;
pub mod logic;
mod lowering;
pub mod membership;
mod zoned;

pub use self::lowering::{Known, Lowering, column_name, constant, locale, planning};
