//! Splitting of a client's writes into batches within the server's limits.

use std::ops::Range;

use bson::{RawDocumentBuf, raw::cstr};

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

/// Operations of one command.
#[derive(Clone, Debug)]
pub(crate) struct ClientBulkBatch {
    /// Indexes of the operations.
    pub(crate) indexes: Range<usize>,
    /// `true` if an operation can affect several documents.
    pub(crate) has_multi: bool,
    /// Distinct namespaces of the operations (`nsInfo`).
    pub(super) namespaces: NsInfoSequence,
}

impl ClientBulkBatch {
    fn begin(index: usize) -> Self {
        let namespaces = NsInfoSequence { identifier: cstr!("nsInfo"), documents: Vec::new() };
        Self { indexes: index..index, has_multi: false, namespaces }
    }

    /// Returns the number of operations.
    pub(crate) fn len(&self) -> usize {
        self.indexes.len()
    }
}

/// Splits the writes into batches in their order, or returns an error if a write exceeds the
/// limits. `body_bytes` is the size of the command without them.
pub(crate) fn plan(
    operations: &mut Operations,
    limits: &WriteLimits,
    body_bytes: usize,
) -> Result<Vec<ClientBulkBatch>> {
    let batch_limits = ClientBatchLimits {
        bytes: limits.message_bytes.saturating_sub(OVERHEAD_BYTES + body_bytes),
        document_bytes: limits.document_bytes,
        // A limit of zero would never end.
        count: limits.batch_count.max(1),
    };
    let namespaces = encode_namespaces(operations)?;
    // Index of each namespace in the current batch's `nsInfo`, if it is there.
    let mut places: Vec<Option<i32>> = vec![None; namespaces.len()];
    let mut batches = Vec::new();
    let (mut batch, mut bytes, mut used) = (ClientBulkBatch::begin(0), 0, 0_usize);
    for index in 0..operations.len() {
        let entry = operations.entries[index];
        let own = operations.bytes_of(index);
        let namespace = namespaces[entry.namespace].as_bytes();
        batch_limits.check(index, own, namespace.len(), entry.document_bytes)?;
        let added = own + places[entry.namespace].map_or(namespace.len(), |_| 0);
        if batch.len() == batch_limits.count || bytes + added > batch_limits.bytes {
            batches.push(std::mem::replace(&mut batch, ClientBulkBatch::begin(index)));
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
        operations.set_namespace_index(index, place);
        batch.indexes.end = index + 1;
        batch.has_multi |= entry.multi;
        bytes += own;
    }
    batches.push(batch);
    Ok(batches)
}

/// Size limits of a batch.
struct ClientBatchLimits {
    /// Size of operations and namespaces.
    bytes: usize,
    document_bytes: usize,
    count: usize,
}

impl ClientBatchLimits {
    /// Returns an error if the operation does not fit into a command together with its namespace.
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

/// Returns the namespaces as documents of `nsInfo`.
fn encode_namespaces(operations: &Operations) -> Result<Vec<RawDocumentBuf>> {
    let encode = |namespace: &crate::Namespace| {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("ns"), namespace.to_string());
        Ok(document)
    };
    operations.namespaces.iter().map(encode).collect()
}

fn too_many_collections() -> Error {
    Error::invalid_argument(
        "the namespaces of the bulk write exceed maxMessageSizeBytes; split it into several calls",
    )
}
