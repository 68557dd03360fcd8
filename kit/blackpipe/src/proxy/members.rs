//! Servers behind the proxy, with one listening address for each.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
};

use bson::Document;
use tokio::sync::mpsc;

use super::{error::ProxyError, rewrite, upstream::Address};

/// A server and its listening address.
#[derive(Debug)]
pub(crate) struct Member {
    /// Address of the server.
    pub(crate) address: Address,
    /// Address of the server as text.
    pub(crate) name: Arc<str>,
    /// `host:port` at which clients reach the server.
    pub(crate) client_address: String,
    pub(crate) listening: SocketAddr,
    /// Other names of the server, from its `hello` (`me`).
    aliases: Mutex<Vec<String>>,
}

impl Member {
    /// Returns all names of the server.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = vec![self.name.to_string(), self.client_address.clone()];
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

/// A new listener.
#[derive(Debug)]
pub(crate) struct NewListener {
    pub(crate) listener: TcpListener,
    pub(crate) member: Arc<Member>,
}

/// Servers behind the proxy. A member that a `hello` names gets a listener before the reply is
/// forwarded, so that clients never see its real address.
#[derive(Debug)]
pub(crate) struct Members {
    known: Mutex<Vec<Arc<Member>>>,
    listen: SocketAddr,
    /// Host that replaces the listening address in replies to clients.
    advertised_host: Option<String>,
    opened: mpsc::UnboundedSender<NewListener>,
}

impl Members {
    pub(crate) fn new(
        listen: SocketAddr,
        advertised_host: Option<String>,
        opened: mpsc::UnboundedSender<NewListener>,
    ) -> Self {
        Self { known: Mutex::new(Vec::new()), listen, advertised_host, opened }
    }

    /// Adds a server of the connection string. The first one gets exactly the configured address.
    pub(crate) fn add_seed(&self, address: &Address) -> Result<Arc<Member>, ProxyError> {
        let mut known = self.lock();
        let opened = match known.is_empty() {
            true => TcpListener::bind(self.listen),
            false => self.bind_next_port(known.len()),
        };
        opened
            .and_then(|listener| self.open(&mut known, address, listener))
            .map_err(|source| ProxyError::Listen { address: self.listen, source })
    }

    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        self.lock().clone()
    }

    /// Adds the members named in a `hello` of `member`. Returns the addresses to rewrite, real to
    /// proxied.
    pub(crate) fn update_from_hello(
        &self,
        member: &Member,
        hello: &Document,
    ) -> BTreeMap<String, String> {
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
            let opened = self.bind_next_port(known.len());
            // Without a free port, the real address is forwarded.
            if let Ok(new) = opened.and_then(|at| self.open(&mut known, &address, at)) {
                new.aliases().push(name);
            }
        }
        names_of(&known)
    }

    /// Returns the addresses to rewrite, real to proxied.
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
            client_address: self.client_address(listening),
            listening,
            aliases: Mutex::default(),
        });
        known.push(Arc::clone(&member));
        // Fails only while the proxy shuts down.
        let _ = self.opened.send(NewListener { listener, member: Arc::clone(&member) });
        Ok(member)
    }

    /// Binds the port that follows those in use, so that ports are predictable. Uses any free port
    /// if it is taken.
    fn bind_next_port(&self, nth: usize) -> io::Result<TcpListener> {
        let next = u16::try_from(nth).ok().and_then(|nth| self.listen.port().checked_add(nth));
        let any = || TcpListener::bind((self.listen.ip(), 0));
        match next {
            Some(port) if self.listen.port() != 0 => {
                TcpListener::bind((self.listen.ip(), port)).or_else(|_| any())
            }
            Some(_) | None => any(),
        }
    }

    fn client_address(&self, listening: SocketAddr) -> String {
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
        names.insert(member.name.to_string(), member.client_address.clone());
        for alias in member.aliases().iter() {
            names.insert(alias.clone(), member.client_address.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn members() -> (Members, mpsc::UnboundedReceiver<NewListener>) {
        let (sender, opened) = mpsc::unbounded_channel();
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        (Members::new(anywhere, None, sender), opened)
    }

    #[test]
    fn each_member_in_hello_gets_one_listener() {
        let (members, mut opened) = members();
        let seed = members.add_seed(&"localhost:1".parse().unwrap()).unwrap();
        let hello = doc! { "hosts": ["db1:1", "db2:1"], "me": "db1:1", "primary": "db2:1" };
        let names = members.update_from_hello(&seed, &hello);
        assert_eq!(names["db1:1"], seed.client_address);
        assert_eq!(names["localhost:1"], seed.client_address);
        assert_ne!(names["db2:1"], seed.client_address);
        assert_eq!(members.update_from_hello(&seed, &hello), names);
        assert_eq!(members.all().len(), 2);
        let places: Vec<_> = std::iter::from_fn(|| opened.try_recv().ok()).collect();
        assert_eq!(places.len(), 2);
        assert_eq!(places[1].listener.local_addr().unwrap(), places[1].member.listening);
        assert_eq!(members.names(), names);
    }

    #[test]
    fn advertised_host_replaces_the_listening_address() {
        let (sender, _opened) = mpsc::unbounded_channel();
        let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let members = Members::new(anywhere, Some("proxy.test".to_owned()), sender.clone());
        let seed = members.add_seed(&"a:1".parse().unwrap()).unwrap();
        assert_eq!(seed.client_address, format!("proxy.test:{}", seed.listening.port()));
        let members = Members::new(anywhere, None, sender);
        let seed = members.add_seed(&"a:1".parse().unwrap()).unwrap();
        assert_eq!(seed.client_address, format!("127.0.0.1:{}", seed.listening.port()));
    }
}
