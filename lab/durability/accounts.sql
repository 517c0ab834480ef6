CREATE TABLE {schema}.accounts (
  id text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL DEFAULT 0,
  unit text NOT NULL DEFAULT '',  -- what made it
  last_token bigint NOT NULL DEFAULT 0,
  last_holder text COLLATE "C" NOT NULL DEFAULT ''
);
-- All applied units, also those whose value was overwritten later.
CREATE TABLE {schema}.increments (account text NOT NULL, unit text NOT NULL);
CREATE FUNCTION {schema}.remember() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.increments VALUES (new.id, new.unit);
  RETURN NULL;
END
$$;
CREATE TRIGGER remember AFTER UPDATE OF value ON {schema}.accounts
  FOR EACH ROW EXECUTE FUNCTION {schema}.remember();
