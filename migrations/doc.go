// Package migrations creates and upgrades the tables of one schema.
//
// [Migrate] applies the numbered files of sql/ that the schema does not have
// yet, one transaction each, under an advisory lock: running it twice, from
// two processes, or again after it was killed is safe. There is no way down.
// [Status] only looks, and [Check] says whether an engine can work.
//
// Every name carries the schema, so that several schemas of one database never
// meet; the publication is called <schema>_wake.
//
// # What it needs
//
// No superuser. The role needs CREATE on the database, for the schema and for
// the publication. A role that only owns an existing, empty schema can migrate
// too, but cannot create the publication: Migrate continues and says so in
// [Report].Publication, and a role that may can run it later.
//
// Waking by logical replication needs, besides the publication, wal_level =
// logical, a free replication slot and a role with REPLICATION. Without any of
// these the engine uses notifications and sweeps; nothing is lost.
package migrations
