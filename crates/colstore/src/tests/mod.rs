mod faults;
mod heap;
mod limits;
mod many;
mod model;
pub mod rig;
mod survey;
mod views;
