CREATE TABLE accounts (
  id      bigint PRIMARY KEY,
  balance bigint NOT NULL
);

CREATE TABLE entries (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account bigint NOT NULL REFERENCES accounts,
  amount  bigint NOT NULL
);
