//! A short, repeatable run of the fuzz target's idea: valid messages with bytes changed, removed,
//! inserted and spliced.
#![allow(missing_docs)]

use bson::rawdoc;
use bytes::Bytes;
use proptest::{
    prelude::Rng as _,
    test_runner::{RngAlgorithm, TestRng},
};
use steadfast_wire::{
    Compressor, DocumentBytes, DocumentRun, Message, MsgFlags, OpMsg, OpQuery, OpReply, compress,
    decode, frame,
};

const MAX: usize = 1 << 16;
const ROUNDS: usize = 150_000;

/// Random number generator with the same numbers in every run.
struct Rng(TestRng);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap();
        usize::try_from(self.0.next_u64() % bound).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let body = DocumentBytes::try_from(rawdoc! {
        "insert": "people",
        "nested": { "list": [1, 2_i64, "three", { "four": 4.0 }], "none": null },
        "id": bson::oid::ObjectId::from_bytes([7; 12]),
        "re": bson::Regex { pattern: bson::cstr!("^a").into(), options: bson::cstr!("i").into() },
        "bin": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1, 2, 3] },
    })
    .unwrap();
    let run = DocumentRun::copy_from([rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }]).unwrap();
    let message = OpMsg::new(body.clone()).with_sequence("documents", run.clone());
    let checked = message.clone().with_sequence("x", run).with_flags(MsgFlags::CHECKSUM_PRESENT);
    let mut seeds = vec![Vec::new(); 4];
    message.encode(1, 0, &mut seeds[0]).unwrap();
    checked.encode(1, 0, &mut seeds[1]).unwrap();
    OpQuery::hello(body.clone()).encode(1, &mut seeds[2]).unwrap();
    OpReply::to_command(&body).unwrap().encode(1, 2, &mut seeds[3]).unwrap();
    for id in 0..4 {
        let mut compressed = Vec::new();
        compress(&seeds[0], Compressor::from_id(id).unwrap(), &mut compressed).unwrap();
        seeds.push(compressed);
    }
    seeds
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let position = rng.below(bytes.len());
    match rng.below(6) {
        0 => bytes[position] = rng.byte(),
        1 => bytes[position] ^= 1 << rng.below(8),
        2 => bytes.truncate(position.max(1)),
        3 => bytes.insert(position, rng.byte()),
        4 => {
            // Lengths at the boundaries.
            let lengths = [0_i32, -1, i32::MIN, i32::MAX, 4, 5, 16, 1 << 16];
            let length = lengths[rng.below(lengths.len())].to_le_bytes();
            for (place, byte) in bytes[position..].iter_mut().zip(length) {
                *place = byte;
            }
        }
        _ => {
            let from = rng.below(other.len());
            bytes.truncate(position);
            bytes.extend_from_slice(&other[from..]);
        }
    }
}

/// Writes the actual length into the header. Otherwise most mutants would fail there.
fn fix_length(bytes: &mut [u8]) {
    let length = i32::try_from(bytes.len()).unwrap().to_le_bytes();
    for (place, byte) in bytes.iter_mut().zip(length) {
        *place = byte;
    }
}

fn survives(bytes: &[u8]) -> bool {
    let _ = frame(bytes, MAX);
    let Ok(incoming) = decode(Bytes::copy_from_slice(bytes), MAX) else {
        return false;
    };
    // A decoded message can be encoded and decoded again without a change.
    let header = incoming.header;
    let mut again = Vec::new();
    incoming.message.encode(header.request_id, header.response_to, &mut again).unwrap();
    let reread = decode(Bytes::from(again), 2 * MAX).unwrap();
    assert_eq!(reread.message, incoming.message);
    if let Message::Msg(message) = incoming.message {
        let _ = bson::Document::try_from(message.body.as_raw());
    }
    true
}

#[test]
fn mutated_messages_never_panic_and_survivors_are_stable() {
    let seeds = seeds();
    let mut rng = Rng(TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut survivors = 0;
    for round in 0..ROUNDS {
        let mut bytes = seeds[round % seeds.len()].clone();
        let other = &seeds[rng.below(seeds.len())];
        for _ in 0..=rng.below(3) {
            mutate(&mut bytes, other, &mut rng);
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        if rng.below(8) != 0 {
            fix_length(&mut bytes);
        }
        survivors += usize::from(survives(&bytes));
    }
    // Too few survivors would mean that only the first checks are tested.
    assert!(survivors > ROUNDS / 50, "{survivors} of {ROUNDS}");
    assert!(survivors < ROUNDS);
}
