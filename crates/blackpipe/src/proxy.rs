//! The fault proxy: between any client and any real server.
