//! Listener, cores, connections: bytes in, calls out, answers back.
