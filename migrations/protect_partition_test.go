package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// newPartitions is a fence with a protected table of two partitions, one of
// which has its columns in another order, and one partition in two again.
func newPartitions(t *testing.T) fence {
	t.Helper()
	f := newFence(t)
	run(t, f, f, `CREATE TABLE fence.jobs (id bigint, region text, n int) PARTITION BY LIST (region);
		CREATE TABLE fence.north PARTITION OF fence.jobs FOR VALUES IN ('north');
		CREATE TABLE fence.south (n int, gone int, region text, id bigint);
		ALTER TABLE fence.south DROP gone;
		ALTER TABLE fence.jobs ATTACH PARTITION fence.south FOR VALUES IN ('south');
		CREATE TABLE fence.west PARTITION OF fence.jobs FOR VALUES IN ('west') PARTITION BY HASH (id);
		CREATE TABLE fence.west1 PARTITION OF fence.west FOR VALUES WITH (MODULUS 1, REMAINDER 0);
		INSERT INTO fence.jobs SELECT id, unnest(ARRAY['north', 'south', 'west']), 0 FROM generate_series(1, 2) id`)
	f.protect(t, "fence.jobs", "'job/' || region || '/' || id")
	return f
}

func TestProtectedPartitions(t *testing.T) {
	t.Parallel()
	f := newPartitions(t)
	require.Empty(t, f.holes(t))
	for name, c := range map[string]struct {
		write    string
		admitted []string
		lacking  string
	}{
		"by way of the table":              {"UPDATE fence.jobs SET n = 1 WHERE id = 1", []string{"job/north/1", "job/south/1"}, "job/west/1"},
		"all of them":                      {"UPDATE fence.jobs SET n = 1 WHERE id = 1", []string{"job/north/1", "job/south/1", "job/west/1"}, ""},
		"directly":                         {"UPDATE fence.south SET n = 1 WHERE id = 1", nil, "job/south/1"},
		"directly, two levels down":        {"DELETE FROM fence.west1 WHERE id = 1", nil, "job/west/1"},
		"a new row":                        {"INSERT INTO fence.jobs VALUES (3, 'west', 0)", nil, "job/west/3"},
		"a row that moves needs both":      {"UPDATE fence.jobs SET region = 'south', id = 9 WHERE id = 1 AND region = 'north'", []string{"job/north/1"}, "job/south/9"},
		"a row that moves needs the first": {"UPDATE fence.jobs SET region = 'south', id = 9 WHERE id = 1 AND region = 'north'", []string{"job/south/9"}, "job/north/1"},
		"a row that moves, with both":      {"UPDATE fence.jobs SET region = 'south', id = 9 WHERE id = 2 AND region = 'north'", []string{"job/north/2", "job/south/9"}, ""},
		"truncate":                         {"TRUNCATE fence.jobs", nil, "-"},
		"truncate of a partition":          {"TRUNCATE fence.north", nil, "-"},
		"truncate two levels down":         {"TRUNCATE fence.west1", nil, "-"},
		"truncate half way down":           {"TRUNCATE fence.west", nil, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := f.guarded(t, c.write, c.admitted...)
			switch c.lacking {
			case "":
				require.NoError(t, err)
			case "-":
				require.Contains(t, unguarded(t, err).Detail, "a TRUNCATE has no resource")
			default:
				require.Contains(t, unguarded(t, err).Detail, "resource "+c.lacking+":")
			}
		})
	}
}

func TestProtectionOfPartitionsThatComeLater(t *testing.T) {
	t.Parallel()
	for name, come := range map[string]string{
		"created": "CREATE TABLE fence.east PARTITION OF fence.jobs FOR VALUES IN ('east')",
		"attached": `CREATE TABLE fence.east (n int, region text, id bigint);
			ALTER TABLE fence.jobs ATTACH PARTITION fence.east FOR VALUES IN ('east')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPartitions(t)
			run(t, f, f, come)
			const insert = "INSERT INTO fence.jobs (id, region) VALUES (1, 'east')"
			unguarded(t, f.exec(t.Context(), f, insert))
			require.NoError(t, f.guarded(t, insert, "job/east/1"))
			require.Equal(t, []string{f.schema + ".east: trigger zz_fencepost_truncate is missing"}, f.holes(t))
			unguarded(t, f.exec(t.Context(), f, "TRUNCATE fence.jobs"))
			run(t, f, f, "TRUNCATE fence.east") // the hole
			f.protect(t, "fence.jobs", "'job/' || region || '/' || id")
			require.Empty(t, f.holes(t))
			unguarded(t, f.exec(t.Context(), f, "TRUNCATE fence.east"))
		})
	}
}

func TestPartitionIsProtectedByItsTable(t *testing.T) {
	t.Parallel()
	f := newPartitions(t)
	ctx := t.Context()
	for _, call := range []string{"protect('fence.north', 'id::text')", "unprotect('fence.north')"} {
		err := f.exec(ctx, f, f.sql("SELECT fence."+call))
		require.Equal(t, "42809", code(err), call)
		require.ErrorContains(t, err, f.schema+".north is a partition")
	}

	run(t, f, f, "ALTER TABLE fence.jobs DETACH PARTITION fence.north")
	run(t, f, f, "UPDATE fence.north SET n = 1") // it is nobody's
	require.Equal(t, []string{f.schema + ".north: trigger zz_fencepost_row is missing"}, f.holes(t))
	f.protect(t, "fence.north", "'north/' || id")
	require.Empty(t, f.holes(t))
	require.NoError(t, f.guarded(t, "UPDATE fence.north SET n = 2 WHERE id = 1", "north/1"))
	unguarded(t, f.exec(ctx, f, "TRUNCATE fence.north"))

	err := f.exec(ctx, f, "ALTER TABLE fence.jobs ATTACH PARTITION fence.north FOR VALUES IN ('north')")
	require.Equal(t, "42710", code(err), "two protections of one row")
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.north')"))
	run(t, f, f, "ALTER TABLE fence.jobs ATTACH PARTITION fence.north FOR VALUES IN ('north')")

	run(t, f, f, "SELECT fence.protect('fence.jobs', $$'job/' || id$$); ALTER TABLE fence.jobs DETACH PARTITION fence.south")
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.south')"), "what was left of it")
	run(t, f, f, "TRUNCATE fence.south")
	unguarded(t, f.exec(ctx, f, "TRUNCATE fence.jobs"))
	run(t, f, f, "ALTER TABLE fence.jobs DETACH PARTITION fence.north")
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.jobs')"))
	require.Empty(t, f.traces(t), "also on what was detached")
}
