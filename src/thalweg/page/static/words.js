// Numbers as text, the same everywhere on the page.

const whole = new Intl.NumberFormat('en-US', {maximumFractionDigits: 0})

const given = n => n !== null && n !== undefined

export const count = n => given(n) ? whole.format(n) : ''

// 12.3k
export function big(n) {
  if (!given(n)) return ''
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) if (Math.abs(n) >= size * 0.9995) return three(n / size) + unit
  return n && Math.abs(n) < 10 ? String(+n.toFixed(1)) : whole.format(n)
}

function three(n) {
  return n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)
}

export const share = n => given(n) ? `${Math.round(100 * n)} %` : ''

export function bytes(n) {
  if (!given(n)) return ''
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) if (n >= size) return `${three(n / size)} ${unit}`
  return `${whole.format(n)} B`
}

export function time(ns) {
  if (!given(ns)) return ''
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]]) if (ns >= size) return `${three(ns / size)} ${unit}`
  return `${ns.toFixed(0)} ns`
}

export const seconds = s => given(s) ? time(1e9 * s) : ''

export function duration(s) {
  if (!given(s)) return ''
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`
  const h = Math.floor(s / 3600), m = Math.floor(s % 3600 / 60), rest = Math.floor(s % 60)
  const two = n => String(n).padStart(2, '0')
  return h ? `${h}:${two(m)}:${two(rest)}` : `${m}:${two(rest)} min`
}

export const clock = at_s => given(at_s) ? new Date(1000 * at_s).toLocaleTimeString('en-GB') : ''

// A time of the flow that may be an instant: microseconds since 1970 between 1990 and 2100.
export function instant(us) {
  return us > 6.3e14 && us < 4.1e15 ? new Date(us / 1000).toISOString().replace('T', ' ').replace(/\.?0*Z$/, ' UTC') : ''
}

export const plural = (n, noun, more = noun + 's') => `${count(n)} ${n === 1 ? noun : more}`

export const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + '…' : text
