//! Tests that need another kernel than the one at hand. Nothing is here yet; `README.md` says what will be.
