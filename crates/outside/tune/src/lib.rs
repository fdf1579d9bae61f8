//! Measures plans against each other and picks one.
