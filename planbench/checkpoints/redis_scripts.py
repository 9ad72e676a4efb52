"""What must happen at one moment in Redis, as its scripts.

All take the keys of a run (its entry, its events, its lease) and the index of runs, and
the arguments: run id, time to live in milliseconds, and what each says. Every one that
writes gives the four keys the same time to live; the index holds for each run the moment
at which it is over.
"""

from __future__ import annotations

from typing import Final

_COMMON: Final = """
local entry, events, lease, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local run, life = ARGV[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6
local newest = redis.pcall('HMGET', lease, 'token', 'expires', 'owner')
-- a lease that cannot be read is nobody's
local sound = tonumber(newest[1]) and tonumber(newest[2]) and newest[3]
if not sound then newest = {false, false, false} end
local live = sound and tonumber(newest[2]) > now

local function touch(ms)
    for _, key in ipairs({entry, events, lease, index}) do
        if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
    end
    if redis.call('EXISTS', entry) == 1 then
        local over = now + ms / 1000
        local known = redis.call('ZSCORE', index, run)
        if not known or tonumber(known) < over then
            redis.call('ZADD', index, string.format('%.6f', over), run)
            if redis.call('PTTL', index) < ms then redis.call('PEXPIRE', index, ms) end
        end
    end
end
"""

APPEND: Final = (
    _COMMON
    + """
local token, started, updated, last_sent = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local status, status_seq, head = ARGV[7], tonumber(ARGV[8]), ARGV[9]
if token ~= '' then
    if newest[1] ~= token then return {'lost', {}} end
elseif live then
    return {'held', {}}
end

local last = tonumber(redis.call('HGET', entry, 'last') or '0')
redis.call('ZSCORE', index, run)
if last == 0 and redis.call('XLEN', events) > 0 then return {'damaged', {}} end
local odd, fresh = {}, {}
for at = 10, #ARGV, 2 do
    local seq, body = ARGV[at], ARGV[at + 1]
    if tonumber(seq) > last then
        fresh[#fresh + 1] = at
    else
        local found = redis.call('XRANGE', events, seq .. '-0', seq .. '-0')
        local stored = found[1] and found[1][2][2] or ''
        if stored ~= body then
            odd[#odd + 1] = seq
            odd[#odd + 1] = stored
        end
    end
end
if #odd > 0 then return {'odd', odd} end

for _, at in ipairs(fresh) do
    redis.call('XADD', events, ARGV[at] .. '-0', 'event', ARGV[at + 1])
end
if #fresh > 0 then
    if last == 0 then
        redis.call('HSET', entry, 'started', started, 'status', 'running')
    end
    if head ~= '' then redis.call('HSETNX', entry, 'head', head) end
    if status ~= '' and status_seq > last then redis.call('HSET', entry, 'status', status) end
    redis.call('HSET', entry, 'updated', updated, 'last', last_sent)
    redis.call('HINCRBY', entry, 'events', #fresh)
end
touch(life)
redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('%.6f', now))
return {'ok', {}}
"""
)

ACQUIRE: Final = (
    _COMMON
    + """
local owner, seconds = ARGV[3], tonumber(ARGV[4])
if live and newest[3] ~= owner then return false end
local token = clock[1] * 1e6 + clock[2]
if newest[1] then token = math.max(token, tonumber(newest[1]) + 1) end
local given = {string.format('%.0f', token), string.format('%.6f', now + seconds)}
if not sound then redis.call('DEL', lease) end
redis.call('HSET', lease, 'token', given[1], 'expires', given[2], 'owner', owner)
touch(math.max(life, math.ceil(seconds * 1000)))
return given
"""
)

HOLD: Final = (
    _COMMON
    + """
local token, seconds = ARGV[3], ARGV[4]
if newest[1] ~= token or tonumber(newest[2]) == 0 then return 0 end
if seconds == '' then
    redis.call('HSET', lease, 'expires', '0')
    return 1
end
redis.call('HSET', lease, 'expires', string.format('%.6f', now + tonumber(seconds)))
touch(math.max(life, math.ceil(tonumber(seconds) * 1000)))
return 1
"""
)

DELETE_ENDED: Final = (
    _COMMON
    + """
local known = redis.call('HMGET', entry, 'status', 'events', 'updated')
if live or known[1] ~= ARGV[3] or known[2] ~= ARGV[4] or known[3] ~= ARGV[5] then return 0 end
redis.call('DEL', entry, events, lease)
redis.call('ZREM', index, run)
return 1
"""
)
