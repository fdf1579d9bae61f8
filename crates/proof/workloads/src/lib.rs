//! Built-in workloads: real programs whose answers are checked against an independent
//! computation, run unchanged under any allocator, policy and placement.
