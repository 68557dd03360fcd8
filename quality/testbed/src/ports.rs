//! Reserved ports of 127.0.0.1. A port stays reserved while its server is down.

use std::{
    net::{Ipv4Addr, TcpListener, UdpSocket},
    sync::atomic::{AtomicU32, Ordering},
};

/// A TCP port of 127.0.0.1 that no other testbed uses while this value exists.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    number: u16,
    /// Bound UDP port of the same number, which marks the reservation.
    _socket: UdpSocket,
}

impl ReservedPort {
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Reserves the port unless another testbed has it or a program listens there.
    fn reserve(number: u16) -> Option<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        let is_free = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok();
        is_free.then_some(Self { number, _socket: socket })
    }
}

/// Reserves free ports below the ephemeral range, so that no outgoing connection uses the port of a server that is down.
/// Each process begins with another number.
pub(crate) fn free_ports() -> impl Iterator<Item = ReservedPort> {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(37);
    std::iter::repeat_with(move || {
        let step = TRIED.fetch_add(1, Ordering::Relaxed);
        u16::try_from(FIRST + start.wrapping_add(step) % COUNT).unwrap_or(u16::MAX)
    })
    .take(COUNT as usize)
    .filter_map(ReservedPort::reserve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_port_cannot_be_reserved_again() {
        let port = free_ports().next().unwrap();
        assert!(ReservedPort::reserve(port.number()).is_none());
    }
}
