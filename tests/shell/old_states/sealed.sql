BEGIN TRANSACTION;
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "about" VALUES('agent','3');
INSERT INTO "about" VALUES('algorithm','"sealed"');
INSERT INTO "about" VALUES('arms','2');
INSERT INTO "about" VALUES('epsilon','3.0');
INSERT INTO "about" VALUES('format','1');
INSERT INTO "about" VALUES('incarnation','0');
INSERT INTO "about" VALUES('run','"abababababababab"');
INSERT INTO "about" VALUES('seeded','true');
INSERT INTO "about" VALUES('v','1.1');
CREATE TABLE releases (
    number INTEGER PRIMARY KEY,
    trial INTEGER NOT NULL,
    arm INTEGER NOT NULL,
    pulls INTEGER NOT NULL,
    scale INTEGER NOT NULL,   -- of the noise, in grid steps
    epsilon TEXT NOT NULL,    -- what it alone costs, an exact fraction
    value INTEGER NOT NULL,   -- what was released, in grid steps
    body BLOB NOT NULL,       -- the message that carried it first: 64-bit integers, little-endian
    digest BLOB NOT NULL      -- of this row and all before it
);
INSERT INTO "releases" VALUES(1,5,1,5,349526,'524288/174763',1705113,X'010000000000000005000000000000000100000000000000AEEC4300000000003917160000000000',X'CBEA275D7BBF8D4D2FBBAF067AC05DEFDE4CBA2B73B3DBF3F8A3BEB98DB65F03');
INSERT INTO "releases" VALUES(2,10,0,5,349526,'524288/174763',3481544,X'000000000000000005000000000000000100000000000000AEEC430000000000FC1A2D0000000000',X'67240DC885136AFBF1DDD3EC462ACB091D7BD53921860BC11C6CA54A58417D52');
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    trial INTEGER NOT NULL,
    policy TEXT NOT NULL,
    message TEXT NOT NULL,    -- kind, trial, rows and width of what was said last
    body BLOB NOT NULL,
    releases INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    intent_trial INTEGER NOT NULL,
    intent_arm INTEGER NOT NULL,
    digest BLOB NOT NULL      -- of this row and of the last release
);
INSERT INTO "state" VALUES(1,12,'{"own": [5, 1, 4451502, 2956028, 5, 1, 4451502, 1447737], "open_pulls": [2, 0], "open_sums": [1048576, 0]}','[4, 10, 1, 5]',X'000000000000000005000000000000000100000000000000AEEC430000000000FC1A2D0000000000',2,0,13,0,X'494B8C933C8BEA2C8B8D006FE38C3AED2BED18F75EECF1E3BA432A1BC2AC9CF8');
COMMIT;
