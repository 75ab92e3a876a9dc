mod faults;
mod heap;
mod limits;
mod many;
mod model;
mod rig;
mod views;
