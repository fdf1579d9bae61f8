//! What the libraries inside a target and the launcher outside agree on.
//!
//! `no_std` and without dependencies: the preloaded library links it, and so does the
//! launcher, so that the environment table exists once.
#![cfg_attr(not(test), no_std)]
