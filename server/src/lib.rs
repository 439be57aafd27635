//! Router, handlers, stages, admission, drain, admin and configuration.
