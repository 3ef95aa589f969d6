-- NEXMark in Flink's SQL: the tables (time is ms, milliseconds), a view, and the queries, each behind a line with its name.

-- table persons
CREATE TABLE persons (id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state
STRING, ms BIGINT, extra STRING, date_time AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR date_time AS date_time -
INTERVAL '4' SECOND) WITH ('connector' = 'filesystem', 'path' = 'file://{folder}/persons', 'format' = 'csv')

-- table auctions
CREATE TABLE auctions (id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, ms
BIGINT, ends BIGINT, seller BIGINT, category BIGINT, extra STRING, expires AS TO_TIMESTAMP_LTZ(ends, 3),
date_time AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND) WITH
('connector' = 'filesystem', 'path' = 'file://{folder}/auctions', 'format' = 'csv')

-- table bids
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ms BIGINT, extra
STRING, p_time AS PROCTIME(), date_time AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR date_time AS date_time -
INTERVAL '4' SECOND) WITH ('connector' = 'filesystem', 'path' = 'file://{folder}/bids', 'format' = 'csv')

-- table side
CREATE TABLE side (key BIGINT, `value` STRING, ms BIGINT, date_time AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR
date_time AS date_time - INTERVAL '4' SECOND) WITH ('connector' = 'filesystem', 'path' =
'file://{folder}/side', 'format' = 'csv')

-- table versions
CREATE VIEW versions AS SELECT key, `value`, date_time FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY key
ORDER BY date_time DESC) AS n FROM side) WHERE n = 1

-- q0
SELECT auction, bidder, price, date_time, extra FROM bids

-- q1
SELECT auction, bidder, 0.908 * price, date_time, extra FROM bids

-- q2
SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0

-- q3
SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p ON a.seller = p.id WHERE a.category = 10
AND p.state IN ('OR', 'ID', 'CA')

-- q4
SELECT category, AVG(final) FROM (SELECT MAX(b.price) AS final, a.category FROM auctions a JOIN bids b ON a.id
= b.auction AND b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category) GROUP BY category

-- q5
SELECT c.auction, c.num FROM (SELECT auction, count(*) AS num, window_start, window_end FROM HOP(TABLE bids,
DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND) GROUP BY auction, window_start, window_end)
c JOIN (SELECT max(num) AS most, window_start, window_end FROM (SELECT auction, count(*) AS num, window_start,
window_end FROM HOP(TABLE bids, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND) GROUP BY
auction, window_start, window_end) GROUP BY window_start, window_end) m ON c.window_start = m.window_start AND
c.window_end = m.window_end AND c.num >= m.most

-- q7
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra FROM bids b JOIN (SELECT max(price) AS most,
window_end FROM TUMBLE(TABLE bids, DESCRIPTOR(date_time), INTERVAL '10' SECOND) GROUP BY window_start,
window_end) m ON b.price = m.most AND b.date_time BETWEEN m.window_end - INTERVAL '10' SECOND AND m.window_end

-- q8
SELECT p.id, p.name, p.window_start FROM (SELECT id, name, window_start, window_end FROM TUMBLE(TABLE persons,
DESCRIPTOR(date_time), INTERVAL '10' SECOND) GROUP BY id, name, window_start, window_end) p JOIN (SELECT
seller, window_start, window_end FROM TUMBLE(TABLE auctions, DESCRIPTOR(date_time), INTERVAL '10' SECOND)
GROUP BY seller, window_start, window_end) a ON p.id = a.seller AND p.window_start = a.window_start AND
p.window_end = a.window_end

-- q9
SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra, auction,
bidder, price, bid_time, bid_extra FROM ( SELECT a.*, b.auction, b.bidder, b.price, b.date_time AS bid_time,
b.extra AS bid_extra, ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time ASC) AS n FROM
auctions a JOIN bids b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires) WHERE n <= 1

-- q10
SELECT auction, bidder, price, date_time, extra, DATE_FORMAT(date_time, 'yyyy-MM-dd'), DATE_FORMAT(date_time,
'HH:mm') FROM bids

-- q11
SELECT bidder, count(*) AS bid_count, window_start, window_end FROM SESSION(TABLE bids PARTITION BY bidder,
DESCRIPTOR(date_time), INTERVAL '10' SECOND) GROUP BY bidder, window_start, window_end

-- q12
SELECT bidder, count(*) AS bid_count, window_start, window_end FROM TUMBLE(TABLE bids, DESCRIPTOR(p_time),
INTERVAL '10' SECOND) GROUP BY bidder, window_start, window_end

-- q13
SELECT b.auction, b.bidder, b.price, b.date_time, s.`value` FROM (SELECT *, MOD(auction, 10000) AS key FROM
bids) b JOIN versions FOR SYSTEM_TIME AS OF b.date_time AS s ON b.key = s.key

-- q14
SELECT auction, bidder, 0.908 * price, CASE WHEN HOUR(CAST(date_time AS TIMESTAMP(3))) BETWEEN 8 AND 18 THEN
'dayTime' WHEN HOUR(CAST(date_time AS TIMESTAMP(3))) <= 6 OR HOUR(CAST(date_time AS TIMESTAMP(3))) >= 20 THEN
'nightTime' ELSE 'otherTime' END, date_time, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', ''))
FROM bids WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000

-- q15
SELECT DATE_FORMAT(date_time, 'yyyy-MM-dd'), count(*) AS total_bids, count(*) FILTER (WHERE price < 10000) AS
rank1_bids, count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids, count(*) FILTER (WHERE
price >= 1000000) AS rank3_bids, count(DISTINCT bidder) AS total_bidder, count(DISTINCT bidder) FILTER (WHERE
price < 10000) AS rank1_bidder, count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS
rank2_bidder, count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidder, count(DISTINCT auction)
AS total_auction, count(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auction, count(DISTINCT
auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auction, count(DISTINCT auction) FILTER
(WHERE price >= 1000000) AS rank3_auction FROM bids GROUP BY DATE_FORMAT(date_time, 'yyyy-MM-dd')

-- q16
SELECT channel, DATE_FORMAT(date_time, 'yyyy-MM-dd'), max(DATE_FORMAT(date_time, 'HH:mm')), count(*) AS
total_bids, count(*) FILTER (WHERE price < 10000) AS rank1_bids, count(*) FILTER (WHERE price >= 10000 AND
price < 1000000) AS rank2_bids, count(*) FILTER (WHERE price >= 1000000) AS rank3_bids, count(DISTINCT bidder)
AS total_bidder, count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidder, count(DISTINCT bidder)
FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidder, count(DISTINCT bidder) FILTER (WHERE price
>= 1000000) AS rank3_bidder, count(DISTINCT auction) AS total_auction, count(DISTINCT auction) FILTER (WHERE
price < 10000) AS rank1_auction, count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS
rank2_auction, count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auction FROM bids GROUP BY
channel, DATE_FORMAT(date_time, 'yyyy-MM-dd')

-- q17
SELECT auction, DATE_FORMAT(date_time, 'yyyy-MM-dd'), count(*) AS total_bids, count(*) FILTER (WHERE price <
10000) AS rank1_bids, count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids, count(*)
FILTER (WHERE price >= 1000000) AS rank3_bids, min(price), max(price), avg(price), sum(price) FROM bids GROUP
BY auction, DATE_FORMAT(date_time, 'yyyy-MM-dd')

-- q18
SELECT auction, bidder, price, channel, url, date_time, extra FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY
bidder, auction ORDER BY date_time DESC) AS n FROM bids) WHERE n <= 1

-- q19
SELECT * FROM (SELECT auction, bidder, price, channel, url, date_time, extra, ROW_NUMBER() OVER (PARTITION BY
auction ORDER BY price DESC) AS n FROM bids) WHERE n <= 10

-- q20
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name, a.description,
a.initial_bid, a.reserve, a.date_time AS opened, a.expires, a.seller, a.category, a.extra AS auction_extra
FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10

-- q21
SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN
'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END FROM bids
WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL OR lower(channel) IN ('apple', 'google',
'facebook', 'baidu')

-- q22
SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url,
'/', 5) FROM bids
