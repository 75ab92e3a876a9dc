-- The extension, and the mirrors that the documents assume.
CREATE EXTENSION pg_anker;
SELECT anker.mirror('order_line'), anker.mirror('shop.item'), anker.mirror('table');
SELECT anker.wait_for_mirror(relation) FROM anker.mirrored;
