//! The layout of memory: size classes, descriptions of runs of pages, the nodes, and the address
//! space, in which the node of a pointer is computed from the address.

pub mod address_space;
pub mod class_map;
pub mod node_map;
pub mod size_class;
pub mod span;
