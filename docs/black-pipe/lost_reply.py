"""The reply to an insert is lost, PyMongo retries, and the order exists once."""

import sys

from pymongo import MongoClient


def place_order(orders, item):
    """The application under test."""
    return orders.insert_one({"item": item}).inserted_id


def test_lost_reply_creates_one_order(uri):
    client = MongoClient(uri)
    admin, orders = client.admin, client.shop.orders
    orders.delete_many({})
    admin.command("blackPipe", clear="all")
    lost = {"name": "lost", "command": "insert", "times": 1, "then": "loseReply"}
    admin.command("blackPipe", add=lost)
    try:
        order = place_order(orders, "kettle")
    finally:
        applied = admin.command("blackPipe", remove="lost")["applied"]

    assert applied == 1, "the reply was lost"
    ledger = admin.command("blackPipe", ledger={"command": "insert", "namespace": "shop.orders"})
    [write] = ledger["writes"]
    assert write["deliveries"] == 2, "the server received it twice"
    assert write["executions"] == 1, "the server executed it once"
    assert [found["_id"] for found in orders.find()] == [order]


if __name__ == "__main__":
    test_lost_reply_creates_one_order(sys.argv[1])
    print("one order")
