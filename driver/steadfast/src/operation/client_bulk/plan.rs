//! Cutting the writes of a client into batches that a server takes.

use std::ops::Range;

use bson::{
    RawDocumentBuf,
    raw::{RawBsonRef, cstr},
};

use super::Operations;
use crate::{
    error::{Error, Result},
    operation::WriteLimits,
    sequence::NsInfoSequence,
};

/// Bytes reserved by the specification for the header, the framing, and the fields that an attempt
/// adds to the command.
const OVERHEAD_BYTES: usize = 1000;

/// Bytes that an operation can have in addition to the document that it stores: filter, options.
/// Servers allow operations that are larger than documents by this number.
const OPERATION_ALLOWANCE_BYTES: usize = 16 * 1024;

/// The operations of one command.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// Indexes of the operations.
    pub(crate) indexes: Range<usize>,
    /// `true` if an operation can affect several documents.
    pub(crate) has_multi: bool,
    /// The collections that they are about, each once.
    pub(super) namespaces: NsInfoSequence,
}

impl Batch {
    fn begin(index: usize) -> Self {
        let namespaces = NsInfoSequence { identifier: cstr!("nsInfo"), documents: Vec::new() };
        Self { indexes: index..index, has_multi: false, namespaces }
    }

    /// Number of operations.
    pub(crate) fn len(&self) -> usize {
        self.indexes.len()
    }
}

/// Cuts the writes into batches, in their order, or says which of them no server would take. The
/// command is `body_bytes` long without them.
pub(crate) fn plan(
    operations: &mut Operations,
    limits: &WriteLimits,
    body_bytes: usize,
) -> Result<Vec<Batch>> {
    let room = Room {
        bytes: limits.message_bytes.saturating_sub(OVERHEAD_BYTES + body_bytes),
        document_bytes: limits.document_bytes,
        // A server that takes none at all would never be done.
        count: limits.batch_count.max(1),
    };
    let namespaces = encode_namespaces(operations)?;
    // The place that each collection has in the batch at hand, if it is in it.
    let mut places: Vec<Option<i32>> = vec![None; namespaces.len()];
    let mut batches = Vec::new();
    let (mut batch, mut bytes, mut used) = (Batch::begin(0), 0, 0_usize);
    for index in 0..operations.len() {
        let entry = operations.entries[index];
        let own = operations.bytes_of(index);
        let namespace = namespaces[entry.namespace].as_bytes();
        room.check(index, own, namespace.len(), entry.document_bytes)?;
        let added = own + places[entry.namespace].map_or(namespace.len(), |_| 0);
        if batch.len() == room.count || bytes + added > room.bytes {
            batches.push(std::mem::replace(&mut batch, Batch::begin(index)));
            places.fill(None);
            (bytes, used) = (0, 0);
        }
        let place = match places[entry.namespace] {
            Some(place) => place,
            None => {
                let place = i32::try_from(used).map_err(|_| too_many_collections())?;
                places[entry.namespace] = Some(place);
                used += 1;
                batch.namespaces.documents.extend_from_slice(namespace);
                bytes += namespace.len();
                place
            }
        };
        operations.set_place(index, place);
        batch.indexes.end = index + 1;
        batch.has_multi |= entry.multi;
        bytes += own;
    }
    batches.push(batch);
    Ok(batches)
}

/// Size limits of a batch.
struct Room {
    /// The operations, and the collections that they are about.
    bytes: usize,
    document_bytes: usize,
    count: usize,
}

impl Room {
    /// Refuses an operation that no command could hold, or no collection.
    fn check(&self, index: usize, own: usize, namespace: usize, document: usize) -> Result<()> {
        let too_long = |what, length, limit| {
            Err(Error::invalid_argument(format!(
                "{what} {index} is {length} bytes long; the server accepts at most {limit}"
            )))
        };
        if document > self.document_bytes {
            return too_long("the document of write", document, self.document_bytes);
        }
        let limit = self.document_bytes + OPERATION_ALLOWANCE_BYTES;
        if own > limit {
            return too_long("write", own, limit);
        }
        if own + namespace > self.bytes {
            return too_long("with the name of its collection, write", own + namespace, self.bytes);
        }
        Ok(())
    }
}

/// The collections as `nsInfo` has them.
fn encode_namespaces(operations: &Operations) -> Result<Vec<RawDocumentBuf>> {
    let encode = |namespace: &crate::Namespace| {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("ns"), RawBsonRef::String(&namespace.to_string()));
        Ok(document)
    };
    operations.namespaces.iter().map(encode).collect()
}

fn too_many_collections() -> Error {
    Error::invalid_argument("the bulk write has too many namespaces")
}
