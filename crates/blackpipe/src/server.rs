//! The scripted server: a test says what comes and what happens then.
