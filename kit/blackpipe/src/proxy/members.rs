//! The servers behind the proxy, and the address at which clients reach each.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
};

use bson::Document;
use tokio::sync::mpsc;

use super::{error::ProxyError, rewrite, upstream::Address};

/// A server and the proxy's address before it.
#[derive(Debug)]
pub(crate) struct Member {
    /// How the proxy reaches it.
    pub(crate) address: Address,
    /// The same, as a name.
    pub(crate) name: Arc<str>,
    /// How clients reach it.
    pub(crate) front: String,
    pub(crate) listening: SocketAddr,
    /// What else it is called: as it names itself.
    aliases: Mutex<Vec<String>>,
}

impl Member {
    /// All its names.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = vec![self.name.to_string(), self.front.clone()];
        names.extend(self.aliases().iter().cloned());
        names
    }

    fn aliases(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.aliases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_called(&self, name: &str) -> bool {
        &*self.name == name || self.aliases().iter().any(|alias| alias == name)
    }
}

/// A new place to listen.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) listener: TcpListener,
    pub(crate) member: Arc<Member>,
}

/// The members known so far. Each that a hello names gets a listener at once, so that a client never
/// learns of an address outside.
#[derive(Debug)]
pub(crate) struct Members {
    known: Mutex<Vec<Arc<Member>>>,
    listen: SocketAddr,
    /// What clients are told in place of the address that is listened on.
    advertised_host: Option<String>,
    opened: mpsc::UnboundedSender<Opened>,
}

impl Members {
    pub(crate) fn new(
        listen: SocketAddr,
        advertised_host: Option<String>,
        opened: mpsc::UnboundedSender<Opened>,
    ) -> Self {
        Self { known: Mutex::new(Vec::new()), listen, advertised_host, opened }
    }

    /// Adds a server that the connection string names. The first gets exactly the address that was
    /// asked for.
    pub(crate) fn add_seed(&self, address: &Address) -> Result<Arc<Member>, ProxyError> {
        let mut known = self.lock();
        let opened = match known.is_empty() {
            true => TcpListener::bind(self.listen),
            false => self.bind_beside(known.len()),
        };
        opened
            .and_then(|listener| self.open(&mut known, address, listener))
            .map_err(|source| ProxyError::Listen { address: self.listen, source })
    }

    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        self.lock().clone()
    }

    /// Takes from a hello of `member` how it calls itself and which other members there are, and
    /// returns the names that clients are to see in place of the real ones.
    pub(crate) fn learn(&self, member: &Member, hello: &Document) -> BTreeMap<String, String> {
        let mut known = self.lock();
        if let Ok(me) = hello.get_str("me")
            && !known.iter().any(|other| other.is_called(me))
        {
            member.aliases().push(me.to_owned());
        }
        for name in rewrite::members_of(hello) {
            if known.iter().any(|other| other.is_called(&name)) {
                continue;
            }
            let Ok(address) = name.parse::<Address>() else { continue };
            let opened = self.bind_beside(known.len());
            // With no port left there is nothing to do but to let the name pass.
            if let Ok(new) = opened.and_then(|at| self.open(&mut known, &address, at)) {
                new.aliases().push(name);
            }
        }
        names_of(&known)
    }

    /// The names that clients are to see in place of the real ones.
    pub(crate) fn names(&self) -> BTreeMap<String, String> {
        names_of(&self.lock())
    }

    fn open(
        &self,
        known: &mut Vec<Arc<Member>>,
        address: &Address,
        listener: TcpListener,
    ) -> io::Result<Arc<Member>> {
        listener.set_nonblocking(true)?;
        let listening = listener.local_addr()?;
        let member = Arc::new(Member {
            address: address.clone(),
            name: address.to_string().into(),
            front: self.front(listening),
            listening,
            aliases: Mutex::default(),
        });
        known.push(Arc::clone(&member));
        // The proxy is going down if nobody takes it.
        let _ = self.opened.send(Opened { listener, member: Arc::clone(&member) });
        Ok(member)
    }

    /// The next port after those in use, if that can be had, so that they can be told beforehand;
    /// any port otherwise.
    fn bind_beside(&self, nth: usize) -> io::Result<TcpListener> {
        let next = u16::try_from(nth).ok().and_then(|nth| self.listen.port().checked_add(nth));
        let any = || TcpListener::bind((self.listen.ip(), 0));
        match next {
            Some(port) if self.listen.port() != 0 => {
                TcpListener::bind((self.listen.ip(), port)).or_else(|_| any())
            }
            Some(_) | None => any(),
        }
    }

    fn front(&self, listening: SocketAddr) -> String {
        let port = listening.port();
        match (&self.advertised_host, listening.ip()) {
            (Some(host), _) => format!("{host}:{port}"),
            (None, ip) if ip.is_unspecified() => {
                SocketAddr::from((IpAddr::from(Ipv4Addr::LOCALHOST), port)).to_string()
            }
            (None, _) => listening.to_string(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Member>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn names_of(known: &[Arc<Member>]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for member in known {
        names.insert(member.name.to_string(), member.front.clone());
        for alias in member.aliases().iter() {
            names.insert(alias.clone(), member.front.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn members() -> (Members, mpsc::UnboundedReceiver<Opened>) {
        let (sender, opened) = mpsc::unbounded_channel();
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        (Members::new(anywhere, None, sender), opened)
    }

    #[test]
    fn every_member_that_a_hello_names_gets_a_place_once() {
        let (members, mut opened) = members();
        let seed = members.add_seed(&"localhost:1".parse().unwrap()).unwrap();
        let hello = doc! { "hosts": ["db1:1", "db2:1"], "me": "db1:1", "primary": "db2:1" };
        let names = members.learn(&seed, &hello);
        assert_eq!(names["db1:1"], seed.front);
        assert_eq!(names["localhost:1"], seed.front);
        assert_ne!(names["db2:1"], seed.front);
        assert_eq!(members.learn(&seed, &hello), names);
        assert_eq!(members.all().len(), 2);
        let places: Vec<_> = std::iter::from_fn(|| opened.try_recv().ok()).collect();
        assert_eq!(places.len(), 2);
        assert_eq!(places[1].listener.local_addr().unwrap(), places[1].member.listening);
        assert_eq!(members.names(), names);
    }

    #[test]
    fn a_host_can_be_advertised() {
        let (sender, _opened) = mpsc::unbounded_channel();
        let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let members = Members::new(anywhere, Some("proxy.test".to_owned()), sender.clone());
        let seed = members.add_seed(&"a:1".parse().unwrap()).unwrap();
        assert_eq!(seed.front, format!("proxy.test:{}", seed.listening.port()));
        let members = Members::new(anywhere, None, sender);
        let seed = members.add_seed(&"a:1".parse().unwrap()).unwrap();
        assert_eq!(seed.front, format!("127.0.0.1:{}", seed.listening.port()));
    }
}
