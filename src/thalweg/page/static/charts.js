// Numbers over time by uPlot, and parts of batches as bars; colours are those of the style sheet.

import {html, useEffect, useRef} from '/vendor/htm-preact.module.js'
import {big, count, seconds} from '/words.js'

const HEIGHT = 150

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

// series: [{label, of: point => number, colour: '--name', stepped}]
export function Chart({title, points, series, theme, values = big, most}) {
  const place = useRef(null), chart = useRef(null)
  const data = [points.map(one => one[0]), ...series.map(line => points.map(line.of))]
  useEffect(() => {
    const box = place.current
    const axis = {stroke: colour('--soft'), font: '11px system-ui, sans-serif', grid: {stroke: colour('--line'), width: 1}, ticks: {stroke: colour('--line'), width: 1}}
    chart.current = new uPlot({
      width: box.clientWidth, height: HEIGHT, legend: {show: false}, cursor: {show: false}, padding: [8, 30, 0, 0],
      scales: {x: {time: true}, y: {range: (u, low, high) => [0, most || (high > 0 ? high * 1.15 : 1)]}},
      axes: [{...axis, size: 28, space: 70, values: (u, ticks) => ticks.map(at => new Date(1000 * at).toLocaleTimeString('en-GB'))}, {...axis, size: 52, space: 28, incrs: series.some(one => one.stepped) ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] : undefined, values: (u, ticks) => ticks.map(values)}],
      series: [{}, ...series.map(one => ({label: one.label, stroke: colour(one.colour), width: 2, points: {show: false}, spanGaps: true, dash: one.dash, paths: one.stepped ? uPlot.paths.stepped({align: 1}) : undefined}))],
    }, data, box)
    const resized = () => chart.current?.setSize({width: box.clientWidth, height: HEIGHT})
    addEventListener('resize', resized)
    return () => { removeEventListener('resize', resized); chart.current.destroy(); chart.current = null }
  }, [theme, series.length])
  useEffect(() => chart.current?.setData(data), [points.length, points.at(-1)?.[0]])
  const last = points.at(-1)
  return html`<figure class="chart"><figcaption>${title}
      ${last && html`<span class="legend">${series.map(one => html`<span class=${`key ${one.colour.slice(2)}`}>${one.label} <b>${one.of(last) === null ? '–' : values(one.of(last))}</b></span>`)}</span>`}
    </figcaption><div class="plot" ref=${place} role="img" aria-label=${`${title}: ${series.map(one => `${one.label} ${last && one.of(last) !== null ? values(one.of(last)) : 'unknown'}`).join(', ')}`}></div></figure>`
}

export const PARTS = [['wait', 'wait_s'], ['plan', 'plan_s'], ['run', 'run_s'], ['write', 'write_s'], ['commit', 'commit_s']]

// Batches as bars whose parts are where their time went.
export function Batches({batches}) {
  const most = Math.max(...batches.map(whole), 1e-9), width = 26, height = 130
  return html`<figure class="chart"><figcaption>Where their time went
      <span class="legend">${PARTS.map(([name]) => html`<span class=${`key part-${name}`}>${name}</span>`)}</span></figcaption>
    <svg class="bars" viewBox="0 0 ${batches.length * width + 60} ${height + 22}" width=${batches.length * width + 60} height=${height + 22} role="img" aria-label="Times of the last ${batches.length} batches, parts stacked">
      <text x="50" y="12" text-anchor="end">${seconds(most)}</text><text x="50" y=${height} text-anchor="end">0 s</text>
      ${batches.map((one, n) => {
        let top = height
        return html`<g key=${one.batch} transform="translate(${60 + n * width} 0)"><title>${`batch ${one.batch}: ${count(one.rows)} rows in ${seconds(one.seconds)}; ${told(one)}`}</title>
          ${parts(one).map(([name, s]) => { const h = s / most * (height - 4); top -= h; return html`<rect class=${`part-${name}`} x="2" y=${top} width=${width - 6} height=${Math.max(0, h)}/>` })}
          ${(n % 5 === 0 || n === batches.length - 1) && html`<text x=${width / 2 - 1} y=${height + 16} text-anchor="middle">${one.batch}</text>`}</g>`
      })}
    </svg></figure>`
}

// Waiting for a place is before the batch; what the parts do not account for is the rest of it.
function parts(one) {
  const found = PARTS.map(([name, field]) => [name, one[field] || 0])
  return found.some(([name, s]) => name !== 'wait' && s > 0) ? found : [['wait', one.wait_s || 0], ['run', one.seconds]]
}

const whole = one => parts(one).reduce((all, [, s]) => all + s, 0)

export const told = one => PARTS.filter(([, field]) => one[field]).map(([name, field]) => `${name} ${seconds(one[field])}`).join(', ')
