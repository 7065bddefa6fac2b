// Opens every page of the built site in Chromium. It fails if a link or an anchor of the site
// leads nowhere, a file of the repository that a page links to does not exist, a page writes
// an error to the console, a diagram is not drawn, or the search finds nothing. It saves
// pictures of five pages.
import { createServer } from 'node:http'
import { existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { extname, join } from 'node:path'
import { chromium } from 'playwright-core'

const [root, repository, pictures] = process.argv.slice(2)
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.woff2': 'font/woff2', '.svg': 'image/svg+xml' }
const shown = { start: '/', index: '/docs/', webserver: '/docs/api/webserver.html', conditions: '/docs/conditions.html', architecture: '/docs/architecture.html' }

const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, 'http://site').pathname)
  const file = [join(root, path), join(root, path, 'index.html'), join(root, path + '.html')].find((f) => existsSync(f) && extname(f))
  response.writeHead(file ? 200 : 404, { 'content-type': types[extname(file ?? '')] ?? 'text/plain' })
  response.end(file ? readFileSync(file) : 'not found')
})
await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
const base = `http://127.0.0.1:${server.address().port}`
// As root, Chromium refuses its sandbox; it opens only pages of this server.
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: process.getuid() === 0 ? ['--no-sandbox'] : [] })

const problems = []
const ids = new Map() // of the elements of each page
const links = [] // { from, to }
let diagrams = 0

try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  // Nothing from outside: the site works offline.
  await context.route((url) => url.origin !== base, (route) => {
    problems.push(`loads ${route.request().url()}`)
    return route.abort()
  })
  const pages = readdirSync(root, { recursive: true }).filter((f) => f.endsWith('.html') && f !== '404.html').sort()
  let paint
  for (const file of pages) {
    const page = await context.newPage()
    page.on('console', (m) => m.type() === 'error' && problems.push(`${file}: ${m.text()}`))
    page.on('pageerror', (e) => problems.push(`${file}: ${e.message}`))
    await page.goto(`${base}/${file}`, { waitUntil: 'networkidle' })
    const expected = await page.locator('.mermaid').count()
    await page.waitForFunction((n) => document.querySelectorAll('.mermaid svg').length === n, expected, { timeout: 20_000 })
      .catch(() => problems.push(`${file}: a diagram is not drawn`))
    diagrams += expected
    if (await page.getByText('Syntax error in text').count()) problems.push(`${file}: a diagram has a syntax error`)
    const found = await page.evaluate(() => ({
      ids: [...document.querySelectorAll('[id]')].map((e) => e.id),
      links: [...document.querySelectorAll('a[href]')].map((e) => e.href),
    }))
    if (file === 'index.html') {
      paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime)
    }
    ids.set(new URL(page.url()).pathname, found.ids)
    links.push(...found.links.map((to) => ({ from: file, to })))
    const name = Object.keys(shown).find((n) => shown[n] === '/' + file.replace(/(^|\/)index\.html$/, '$1'))
    if (name) {
      mkdirSync(pictures, { recursive: true })
      await page.screenshot({ path: join(pictures, name + '.jpg'), quality: 50 })
    }
    await page.close()
  }

  let outside = 0
  for (const { from, to } of links) {
    const url = new URL(to)
    if (url.origin !== base) {
      const path = /^https:\/\/github\.com\/platform-operator\/platform-operator\/(?:blob|edit)\/main\/([^#]*)/.exec(to)?.[1]
      if (path !== undefined && !existsSync(join(repository, decodeURIComponent(path)))) problems.push(`${from}: ${path} does not exist`)
      outside++
      continue
    }
    const path = [url.pathname, url.pathname + 'index.html', url.pathname + '.html'].find((p) => ids.has(p))
    if (!path) problems.push(`${from}: no page ${url.pathname}`)
    else if (url.hash && !ids.get(path).includes(decodeURIComponent(url.hash.slice(1)))) problems.push(`${from}: no anchor ${url.pathname}${url.hash}`)
  }

  const page = await context.newPage()
  await page.goto(base + '/docs/', { waitUntil: 'networkidle' })
  await page.keyboard.press('Control+k')
  await page.locator('.VPLocalSearchBox input').fill('RolledBack')
  const results = page.locator('.VPLocalSearchBox .result')
  await results.first().waitFor({ timeout: 10_000 }).catch(() => problems.push('the search finds nothing'))
  const hits = await results.count()
  console.log(`${pages.length} pages, ${diagrams} diagrams, ${links.length - outside} links within the site and ${outside} others, ${hits} results of a search`)
  console.log(`first paint of the start page: ${Math.round(paint)} ms`)
} finally {
  await browser.close()
  server.close()
}
for (const p of new Set(problems)) console.log(p)
console.log(`${new Set(problems).size} problems`)
process.exitCode = problems.length ? 1 : 0
