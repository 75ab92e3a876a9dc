mod faults;
mod heap;
mod images;
mod limits;
mod many;
mod model;
pub mod rig;
mod survey;
mod views;
