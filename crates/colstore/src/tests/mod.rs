mod faults;
mod heap;
mod limits;
mod model;
mod rig;
mod views;
