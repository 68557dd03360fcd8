//! Queries to a name server on loopback.

use std::net::{IpAddr, Ipv4Addr};

use hickory_resolver::{
    config::{ConnectionConfig, NameServerConfig},
    proto::{
        op::{Message, ResponseCode},
        rr::{
            Name,
            rdata::{SRV, TXT},
        },
    },
};
use tokio::net::UdpSocket;

use super::*;

type Zone = fn(&Name, RecordType) -> Result<Vec<(u32, RData)>, ResponseCode>;

/// Creates a resolver for a test's name server, which runs until the test ends.
async fn resolver(zone: Zone) -> SystemRecords {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut connection = ConnectionConfig::udp();
    connection.port = socket.local_addr().unwrap().port();
    let server = NameServerConfig::new(IpAddr::V4(Ipv4Addr::LOCALHOST), true, vec![connection]);
    tokio::spawn(serve(socket, zone));
    let config = HickoryConfig::from_parts(None, Vec::new(), vec![server]);
    let mut options = ResolverOpts::default();
    options.attempts = 1;
    options.timeout = Duration::from_secs(60);
    SystemRecords::with_settings(config, options).unwrap()
}

async fn serve(socket: UdpSocket, zone: Zone) {
    let mut buffer = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        let request = Message::from_vec(&buffer[..length]).unwrap();
        let query = request.queries[0].clone();
        let mut response = request.into_response();
        match zone(query.name(), query.query_type()) {
            Ok(records) => {
                for (ttl, data) in records {
                    response.add_answer(Record::from_rdata(query.name().clone(), ttl, data));
                }
            }
            Err(code) => response.metadata.response_code = code,
        }
        socket.send_to(&response.to_vec().unwrap(), from).await.unwrap();
    }
}

fn cluster(name: &Name, kind: RecordType) -> Result<Vec<(u32, RData)>, ResponseCode> {
    let host = |name: &str, port| RData::SRV(SRV::new(0, 0, port, Name::from_ascii(name).unwrap()));
    match (name.to_ascii().to_ascii_lowercase().as_str(), kind) {
        ("_mongodb._tcp.cluster.example.com.", RecordType::SRV) => {
            Ok(vec![(86_400, host("a.example.com.", 27017)), (60, host("b.example.com.", 27018))])
        }
        ("cluster.example.com.", RecordType::TXT) => {
            let text = vec!["authSource=".to_owned(), "users".to_owned()];
            Ok(vec![(60, RData::TXT(TXT::new(text)))])
        }
        ("broken.example.com.", _) => Err(ResponseCode::ServFail),
        ("absent.example.com.", _) => Err(ResponseCode::NXDomain),
        _ => Ok(Vec::new()),
    }
}

#[tokio::test]
async fn srv_records_have_a_port_and_a_ttl() {
    let resolver = resolver(cluster).await;
    let mut found = resolver.srv("_mongodb._tcp.cluster.example.com").await.unwrap();
    let record = |host: &str, port, seconds| {
        let ttl = Duration::from_secs(seconds);
        SrvRecord { host: host.to_owned(), port, ttl }
    };
    found.sort_by_key(|record| record.port);
    assert_eq!(found, [record("a.example.com", 27017, 86_400), record("b.example.com", 27018, 60)]);
}

#[tokio::test]
async fn strings_of_a_txt_record_keep_their_order() {
    let found = resolver(cluster).await.txt("cluster.example.com").await.unwrap();
    assert_eq!(found, [TxtRecord { strings: vec![b"authSource=".to_vec(), b"users".to_vec()] }]);
}

#[tokio::test]
async fn missing_records_are_a_response_and_a_server_failure_is_an_error() {
    let resolver = resolver(cluster).await;
    assert_eq!(resolver.txt("absent.example.com").await, Ok(Vec::new()));
    assert_eq!(resolver.txt("plain.example.com").await, Ok(Vec::new()));
    let error = resolver.srv("broken.example.com").await.unwrap_err();
    assert!(error.to_string().contains("broken.example.com"), "{error}");
}

#[tokio::test]
async fn invalid_name_is_an_error() {
    let error = resolver(cluster).await.srv("a..b").await.unwrap_err();
    assert!(matches!(error, DnsError::Lookup { .. }), "{error}");
}
