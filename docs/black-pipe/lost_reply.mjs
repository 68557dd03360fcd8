// The reply to an insert is lost, the driver retries, and the order exists once.

import assert from "node:assert/strict";
import { MongoClient } from "mongodb";

/** The application under test. */
async function placeOrder(orders, item) {
  const { insertedId } = await orders.insertOne({ item });
  return insertedId;
}

const client = new MongoClient(process.argv[2]);
const admin = client.db("admin");
const orders = client.db("shop").collection("orders");
try {
  await orders.deleteMany({});
  await admin.command({ blackPipe: 1, clear: "all" });
  const lost = { name: "lost", command: "insert", times: 1, then: "loseReply" };
  await admin.command({ blackPipe: 1, add: lost });
  const order = await placeOrder(orders, "kettle");
  const { applied } = await admin.command({ blackPipe: 1, remove: "lost" });
  assert.equal(Number(applied), 1, "the reply was lost");

  const filter = { command: "insert", namespace: "shop.orders" };
  const ledger = await admin.command({ blackPipe: 1, ledger: filter });
  assert.equal(ledger.writes.length, 1);
  assert.equal(ledger.writes[0].deliveries, 2, "the server received it twice");
  assert.equal(ledger.writes[0].executions, 1, "the server executed it once");
  const found = await orders.find().toArray();
  assert.deepEqual(found.map((one) => String(one._id)), [String(order)]);
  console.log("one order");
} finally {
  await client.close();
}
