-- How the server chooses the candidates of a search in a large set; needs the extension vector.
--
-- The script runs when the first set has grown large, so that a small memory needs no extension.
-- All of it can be dropped, and made again from the features. Only the owner of the tables uses it:
-- under the policies of other users, neither index would serve a search.

-- Sets that are searched on the server.
CREATE TABLE alveus.large_set (
    set_id bigint PRIMARY KEY,
    dimensions integer NOT NULL,
    upto bigint NOT NULL DEFAULT 0,        -- rows up to this one are in the tables below
    ready boolean NOT NULL DEFAULT FALSE,  -- whether it ever held as many as searches need
    passages bigint NOT NULL DEFAULT 0,    -- of the rows that are counted, as are `tokens`
    tokens bigint NOT NULL DEFAULT 0
);

-- The vectors of a text, one for each of its windows.
CREATE TABLE alveus.large_vector (
    row bigint NOT NULL,
    part integer NOT NULL,                 -- which window
    set_id bigint NOT NULL,
    dimensions integer NOT NULL,
    vector halfvec NOT NULL,
    PRIMARY KEY (row, part)
);

-- The terms of a text.
CREATE TABLE alveus.large_text (
    row bigint PRIMARY KEY,
    set_id bigint NOT NULL,
    terms bigint[] NOT NULL,               -- hashes, each with the id of the set in its upper half
    passages integer NOT NULL,
    tokens bigint NOT NULL,
    counted boolean NOT NULL DEFAULT FALSE -- whether `large_term` and `large_set` count it
);

CREATE INDEX large_text_terms ON alveus.large_text USING gin (terms);

-- How many counted texts contain a term.
CREATE TABLE alveus.large_term (
    term bigint PRIMARY KEY,
    set_id bigint NOT NULL,
    texts bigint NOT NULL
);

-- Rows up to `upto` to index again: they were revived, or embedded, since.
CREATE TABLE alveus.large_late (
    row bigint PRIMARY KEY,
    set_id bigint NOT NULL
);

-- What a set has in each table.
CREATE INDEX large_vector_set ON alveus.large_vector (set_id, row);
CREATE INDEX large_text_set ON alveus.large_text (set_id, row);
CREATE INDEX large_term_set ON alveus.large_term (set_id);
CREATE INDEX large_late_set ON alveus.large_late (set_id);

-- Neighbours in a session, and items of a speaker.
CREATE INDEX feature_session ON alveus.feature (set_id, alveus.digest(session), time, first)
WHERE ended = 0 AND session IS NOT NULL;

CREATE INDEX feature_speaker ON alveus.feature (set_id, alveus.digest(speaker))
WHERE ended = 0 AND speaker IS NOT NULL;

-- A version that ended or was removed leaves all tables, and the counts.
CREATE FUNCTION alveus.large_row_gone() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone alveus.large_text;
BEGIN
    DELETE FROM alveus.large_late WHERE row = old.row;
    DELETE FROM alveus.large_vector WHERE row = old.row;
    DELETE FROM alveus.large_text WHERE row = old.row RETURNING * INTO gone;
    IF gone.counted THEN
        UPDATE alveus.large_set SET passages = passages - gone.passages,
            tokens = tokens - gone.tokens WHERE set_id = old.set_id;
        DELETE FROM alveus.large_term WHERE term = ANY (gone.terms) AND texts <= 1;
        UPDATE alveus.large_term SET texts = texts - 1 WHERE term = ANY (gone.terms);
    END IF;
    RETURN NULL;
END $$;

-- A version that was revived, or has its vectors now, is read again.
CREATE FUNCTION alveus.large_row_late() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO alveus.large_late (row, set_id) SELECT new.row, set_id FROM alveus.large_set
    WHERE set_id = new.set_id AND upto >= new.row ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

-- A set whose embedder changed is indexed again.
CREATE FUNCTION alveus.large_set_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM alveus.large_set WHERE set_id = old.set_id;
    RETURN NULL;
END $$;

CREATE TRIGGER feature_ends_large AFTER UPDATE OF ended ON alveus.feature FOR EACH ROW
WHEN (old.ended = 0 AND new.ended != 0) EXECUTE FUNCTION alveus.large_row_gone();

CREATE TRIGGER feature_vanishes_large AFTER DELETE ON alveus.feature FOR EACH ROW
EXECUTE FUNCTION alveus.large_row_gone();

CREATE TRIGGER feature_lives_again_large AFTER UPDATE OF ended ON alveus.feature FOR EACH ROW
WHEN (old.ended != 0 AND new.ended = 0) EXECUTE FUNCTION alveus.large_row_late();

CREATE TRIGGER feature_embedded_large AFTER UPDATE OF vectors ON alveus.feature FOR EACH ROW
WHEN (old.vectors IS NULL AND new.vectors IS NOT NULL)
EXECUTE FUNCTION alveus.large_row_late();

CREATE TRIGGER feature_changes_large AFTER UPDATE OF vectors ON alveus.feature FOR EACH ROW
WHEN (old.vectors IS NOT NULL AND old.vectors IS DISTINCT FROM new.vectors)
EXECUTE FUNCTION alveus.large_set_changed();
