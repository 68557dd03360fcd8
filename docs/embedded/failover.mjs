// The primary is shut down, another member takes over, and the driver goes on.

import assert from "node:assert/strict";
import { MongoClient } from "mongodb";

/** The application: what is under test. */
async function placeOrder(orders, item) {
  const { insertedId } = await orders.insertOne({ item });
  return insertedId;
}

const client = new MongoClient(process.argv[2]);
const admin = client.db("admin");
const orders = client.db("shop").collection("orders");
try {
  const first = await placeOrder(orders, "kettle");
  const { me: wasPrimary } = await admin.command({ hello: 1 });
  // The server hangs up without an answer.
  await admin.command({ shutdown: 1 }).catch(() => {});

  const second = await placeOrder(orders, "teapot");
  const { me: isPrimary } = await admin.command({ hello: 1 });
  assert.notEqual(isPrimary, wasPrimary, "another member is primary");
  const found = await orders.find().toArray();
  assert.deepEqual(found.map((one) => String(one._id)), [String(first), String(second)]);
  console.log("two orders");
} finally {
  await client.close();
}
